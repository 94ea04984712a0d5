package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gatehouse/scripts/imagetest/tape"
)

// raspberryPi starts the image as a Raspberry Pi 3 does, from U-Boot on: the emulator
// stands for the firmware before it. There is no network in this emulation, so the
// checks run in the shell on the console. The kernel knows no cache of a memory card: nothing
// waits for a flush. The other slot is tried once, and left before it is
// committed.
func (t *trial) raspberryPi(ctx context.Context) error {
	if err := errors.Join(t.fillOtherSlot(ctx, strings.Clone), t.takeFirmware(ctx)); err != nil {
		return err
	}
	m, err := t.powerOnRaspberryPi(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = m.cutPower() }()
	if _, err := t.raspberryReady(ctx, m, "a"); err != nil {
		return err
	}
	if m, err = t.rollBack(ctx, m); err != nil {
		return err
	}
	s, err := t.raspberryReady(ctx, m, "b")
	if err != nil {
		return err
	}
	st, err := s.status(ctx)
	if err != nil {
		return err
	}
	t.say("raspi3b: slot b is tried: phase %s, default %s", st.Phase, st.Default)
	if st.Default == "b" { // it was committed meanwhile: back the same way
		m, err = t.rollBack(ctx, m)
	} else if err = m.cutPower(); err == nil {
		m, err = t.powerOnRaspberryPi(ctx)
	}
	if err != nil {
		return err
	}
	if s, err = t.raspberryReady(ctx, m, "a"); err != nil {
		return err
	}
	if st, err = s.status(ctx); err != nil {
		return err
	}
	t.say("raspi3b: back on slot a: %s", strings.Join(st.Sentences(time.UTC), " "))
	return nil
}

// fillOtherSlot copies slot a to slot b, with changes of its entry.
func (t *trial) fillOtherSlot(ctx context.Context, change func(entry string) string) error {
	all, err := t.partitions(ctx)
	if err != nil {
		return err
	}
	if err := command(ctx, "dd", "if="+t.disk, "of="+t.disk, "bs=1M", "conv=notrunc,sparse", "status=none", "iflag=skip_bytes,count_bytes", "oflag=seek_bytes",
		fmt.Sprintf("skip=%d", all["root-a"].start), fmt.Sprintf("seek=%d", all["root-b"].start), fmt.Sprintf("count=%d", all["root-a"].size)); err != nil {
		return err
	}
	file := filepath.Join(t.dir, "copied")
	for _, name := range []string{"vmlinuz", "initrd"} {
		if err := command(ctx, "mcopy", "-o", "-i", t.bootImage(), "::gatehouse/a/"+name, file); err != nil {
			return err
		}
		if err := t.putOnBoot(ctx, file, "gatehouse/b/"+name); err != nil {
			return err
		}
	}
	text, err := t.readBoot(ctx, "loader/entries/gatehouse-a.conf")
	if err != nil {
		return err
	}
	text = strings.NewReplacer("/gatehouse/a/", "/gatehouse/b/", "gatehouse.slot=a", "gatehouse.slot=b").Replace(text)
	if err := os.WriteFile(file, []byte(change(text)), 0o600); err != nil {
		return err
	}
	return t.putOnBoot(ctx, file, "loader/entries/gatehouse-b.conf")
}

// takeFirmware takes from the boot partition what the firmware would load. The emulator's
// watchdog resets the board as soon as it is armed: it has none.
func (t *trial) takeFirmware(ctx context.Context) error {
	for _, name := range []string{"u-boot.bin", "bcm2837-rpi-3-b.dtb"} {
		if err := command(ctx, "mcopy", "-o", "-i", t.bootImage(), "::"+name, filepath.Join(t.dir, name)); err != nil {
			return err
		}
	}
	tree := filepath.Join(t.dir, "bcm2837-rpi-3-b.dtb")
	text, err := os.ReadFile(tree)
	if err != nil {
		return err
	}
	without := bytes.ReplaceAll(text, []byte("brcm,bcm2835-pm"), []byte("none,bcm2835-pm"))
	if bytes.Equal(without, text) {
		return errors.New("the device tree of the Raspberry Pi 3 has no watchdog")
	}
	return os.WriteFile(tree, without, 0o600)
}

func (t *trial) powerOnRaspberryPi(ctx context.Context) (*machine, error) {
	t.starts++
	name := filepath.Join(t.dir, fmt.Sprintf("start%02d", t.starts))
	m := newMachine(name)
	var err error
	if m.disks, err = tape.Start("", tape.Config{File: t.disk, Socket: name + ".disk", Durable: true}); err != nil {
		return nil, err
	}
	m.command = append(m.command, "-M", "raspi3b",
		"-kernel", filepath.Join(t.dir, "u-boot.bin"), "-dtb", filepath.Join(t.dir, "bcm2837-rpi-3-b.dtb"),
		"-drive", "file=nbd:unix:"+name+".disk,format=raw,if=sd,cache=writeback",
		"-serial", "null", "-serial", "chardev:console")
	return m, m.supervise(ctx)
}

// raspberryReady waits until the gateway is ready in a slot.
func (t *trial) raspberryReady(ctx context.Context, m *machine, letter string) (*shell, error) {
	s, err := m.openShell(ctx)
	if err != nil {
		return nil, err
	}
	slot, err := s.run(ctx, `grep -o 'gatehouse.slot=.' /proc/cmdline`)
	if err != nil {
		return nil, err
	}
	if slot != "gatehouse.slot="+letter {
		return nil, fmt.Errorf("raspi3b: it has started %s, want slot %s (the console is in %s)", slot, letter, m.log)
	}
	err = await(ctx, "the gateway is ready", func() error {
		out, err := s.run(ctx, "gatehouse status --json")
		if err == nil && !regexp.MustCompile(`"ready": *true`).MatchString(out) {
			err = fmt.Errorf("gatehouse status says:\n%s", out)
		}
		return err
	})
	if err == nil {
		t.say("raspi3b: slot %s: the gateway is ready %.1f s after power on", letter, m.onSince())
	}
	return s, err
}

// rollBack has the board try the other slot. The emulated board cannot restart by itself,
// which its watchdog would do: its power is switched off and on when it wants to. The
// version of the slot that was copied has never run here, so that root has to allow it.
func (t *trial) rollBack(ctx context.Context, m *machine) (*machine, error) {
	if err := m.write("\n gatehouse update rollback --old-data; echo EXIT $?\n"); err != nil {
		return nil, err
	}
	at := len(m.consoleLog())
	err := await(ctx, "the board restarts", func() error {
		text := string(m.consoleLog()[at:])
		if strings.Contains(text, "reboot: Restarting") || strings.Contains(text, "U-Boot ") {
			return nil
		}
		if err := m.checkRunning(); err != nil {
			return final{err}
		}
		return fmt.Errorf("the console says: %.2000s", text)
	})
	if err = errors.Join(err, m.cutPower()); err != nil {
		return nil, err
	}
	return t.powerOnRaspberryPi(ctx)
}
