package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// cache is what the cache in front of the disk does with writes.
type cache string

const (
	losesUnflushed cache = "writeback" // as a memory card: what was not flushed is lost at a power cut
	losesAll       cache = "unsafe"    // the control: what was flushed is lost too
)

// machine is the emulated board, running.
type machine struct {
	disk, board *exec.Cmd
	ended       chan struct{} // closed when the board is off
	complaint   bytes.Buffer  // of the board; to be read when it is off
	start       time.Time
	http, https string // addresses on this machine
	mqtt        string
	log         string // of the console
	console     string // socket
	monitor     string // socket
}

// powerOn starts the machine.
func (t *trial) powerOn(ctx context.Context, writes cache) (*machine, error) {
	t.starts++
	name := filepath.Join(t.dir, fmt.Sprintf("start%02d", t.starts))
	m := &machine{
		start: time.Now(), ended: make(chan struct{}),
		log: name + ".log", console: name + ".console", monitor: name + ".monitor",
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	m.http, m.https, m.mqtt = ports[0], ports[1], ports[2]
	socket := name + ".disk"
	m.disk = child(ctx, "nbdkit", "-f", "-U", socket, "--filter=cache", "file", t.disk, "cache="+string(writes))
	if err := m.disk.Start(); err != nil {
		return nil, err
	}
	exists := func() error { _, err := os.Stat(socket); return err }
	if err := await(ctx, 10*time.Second, "the disk is there", exists); err != nil {
		return nil, err
	}
	m.board = child(ctx, "qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a53", "-accel", "tcg,thread=multi",
		"-m", "512", "-smp", "2", "-display", "none", "-no-reboot",
		"-bios", "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd",
		"-chardev", "socket,id=console,path="+m.console+",server=on,wait=off,logfile="+m.log, "-serial", "chardev:console",
		"-monitor", "unix:"+m.monitor+",server,nowait",
		"-drive", "file=nbd:unix:"+socket+",format=raw,if=none,id=disk,cache=writeback",
		"-device", "virtio-blk-pci,drive=disk",
		"-device", "virtio-rng-pci", "-device", "i6300esb",
		"-netdev", fmt.Sprintf("user,id=net,hostfwd=tcp:%s-:80,hostfwd=tcp:%s-:443,hostfwd=tcp:%s-:1883", m.http, m.https, m.mqtt),
		"-device", "virtio-net-pci,netdev=net,romfile=")
	m.board.Stderr = &m.complaint
	if err := m.board.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(m.ended)
		_ = m.board.Wait()
	}()
	return m, nil
}

// child makes a process that ends with this one.
func child(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// freePorts returns loopback addresses that nobody listens on.
func freePorts(n int) ([]string, error) {
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// cutPower ends the machine at once, if it is on, and with it what the disk's cache
// holds.
func (m *machine) cutPower() {
	_ = m.disk.Process.Kill()
	_ = m.board.Process.Kill()
	_ = m.disk.Wait()
	<-m.ended
}

// pressButton asks the machine to switch itself off, as its power button does.
func (m *machine) pressButton(ctx context.Context) error {
	conn, err := net.Dial("unix", m.monitor)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("system_powerdown\n")); err != nil {
		return err
	}
	return m.awaitOff(ctx)
}

// awaitOff waits until the machine has switched itself off, and ends its disk in
// order, which then holds everything.
func (m *machine) awaitOff(ctx context.Context) error {
	select {
	case <-m.ended:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(3 * time.Minute):
		return errors.New("the machine did not switch itself off within 3 minutes")
	}
	if err := m.disk.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = m.disk.Wait()
	return nil
}

// onSince returns for how long the machine has been on.
func (m *machine) onSince() float64 { return time.Since(m.start).Seconds() }

// alive reports a machine that has ended by itself.
func (m *machine) alive() error {
	select {
	case <-m.ended:
		return fmt.Errorf("the machine has gone off: %s", m.complaint.String())
	default:
		return nil
	}
}
