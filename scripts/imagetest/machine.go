package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"gatehouse/scripts/imagetest/tape"
)

// The firmware of the emulated machine, and its empty memory for variables.
const (
	firmwareCode      = "/usr/share/AAVMF/AAVMF_CODE.fd"
	firmwareVariables = "/usr/share/AAVMF/AAVMF_VARS.fd"
	firmwareBanner    = "UEFI firmware (version" // on the console, at each start
)

// The disks of the machine, as they are numbered in a recording.
const (
	card  = 0
	flash = 1
)

// power is how a machine is switched on.
type power struct {
	lies   bool   // the control: flushed writes are lost at a power cut too
	record string // the file in which all writes are recorded; "": none
}

// machine is the emulated board, running. Restarts are starts of the same machine.
type machine struct {
	board       *exec.Cmd
	disks       *tape.Tape
	ended       chan struct{} // closed when the board is off
	complaint   bytes.Buffer  // of the board; to be read when it is off
	start       time.Time
	http, https string // addresses on this machine
	mqtt        string
	log         string // of the console
	console     net.Conn
	monitor     string // socket
}

// powerOn starts the machine. It has no generator of random numbers, as many a board: with one,
// the kernel would hide its own addresses, which on this processor costs the emulator a third.
func (t *trial) powerOn(ctx context.Context, p power) (*machine, error) {
	t.starts++
	name := filepath.Join(t.dir, fmt.Sprintf("start%02d", t.starts))
	m := &machine{start: time.Now(), ended: make(chan struct{}), log: name + ".log", monitor: name + ".monitor"}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	m.http, m.https, m.mqtt = ports[0], ports[1], ports[2]
	if m.disks, err = tape.Start(p.record,
		tape.Config{File: t.disk, Socket: name + ".disk", Lies: p.lies},
		tape.Config{File: t.disk + ".vars", Socket: name + ".vars", Durable: true}); err != nil {
		return nil, err
	}
	m.board = child(ctx, "qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a53", "-accel", "tcg,thread=multi",
		"-m", "512", "-smp", "2", "-display", "none",
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+firmwareCode,
		"-drive", "if=pflash,format=raw,unit=1,file=nbd:unix:"+name+".vars",
		"-chardev", "socket,id=console,path="+name+".console,server=on,wait=off,logfile="+m.log, "-serial", "chardev:console",
		"-monitor", "unix:"+m.monitor+",server,nowait",
		"-drive", "file=nbd:unix:"+name+".disk,format=raw,if=none,id=disk,cache=writeback",
		"-device", "virtio-blk-pci,drive=disk",
		"-device", "i6300esb",
		"-netdev", fmt.Sprintf("user,id=net,hostfwd=tcp:%s-:80,hostfwd=tcp:%s-:443,hostfwd=tcp:%s-:1883", m.http, m.https, m.mqtt),
		"-device", "virtio-net-pci,netdev=net,romfile=")
	return m, m.begin(ctx, name+".console")
}

// begin starts the emulator and reads its console, which would hold it up otherwise; what
// it says is in the log.
func (m *machine) begin(ctx context.Context, console string) (err error) {
	m.board.Stderr = &m.complaint
	if err := m.board.Start(); err != nil {
		return err
	}
	go func() {
		defer close(m.ended)
		_ = m.board.Wait()
	}()
	dial := func() error {
		if err := m.alive(); err != nil {
			return err
		}
		m.console, err = net.Dial("unix", console)
		return err
	}
	if err := await(ctx, 20*time.Second, "the emulator runs", dial); err != nil {
		return errors.Join(err, m.cutPower())
	}
	go func() { _, _ = io.Copy(io.Discard, m.console) }()
	return nil
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

// cutPower ends the machine at once, if it is on, and with it some of what its disk has
// not flushed.
func (m *machine) cutPower() error { return m.cut(false) }

// cut is cutPower; with everything, all that was not flushed is lost.
func (m *machine) cut(everything bool) error {
	select {
	case <-m.ended:
	default:
		_ = m.board.Process.Kill()
	}
	<-m.ended
	return m.disks.Cut(everything)
}

// pressButton presses the power button of the machine until it switches itself off: soon
// after a start nobody attends to it yet. Its disk then holds everything.
func (m *machine) pressButton(ctx context.Context) error {
	conn, err := net.Dial("unix", m.monitor)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for range 12 {
		if _, err := conn.Write([]byte("system_powerdown\n")); err != nil && m.alive() == nil {
			return err
		}
		select {
		case <-m.ended:
			m.disks.Stop()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(15 * time.Second):
		}
	}
	return fmt.Errorf("the machine did not switch itself off within 3 minutes (the console is in %s)", m.log)
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

// consoleLog returns what the console has said so far.
func (m *machine) consoleLog() []byte {
	text, _ := os.ReadFile(m.log) // there is none yet
	return text
}

// starts returns how often the machine has started.
func (m *machine) starts() int { return bytes.Count(m.consoleLog(), []byte(firmwareBanner)) }

// thisStart returns what the console has said since the last start.
func (m *machine) thisStart() []byte {
	text := m.consoleLog()
	return text[max(bytes.LastIndex(text, []byte(firmwareBanner)), 0):]
}
