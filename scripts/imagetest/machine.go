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
	"sync"
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

// machine is the emulated board, running. Restarts are starts of the same machine, each in an
// emulator of its own: one that goes on drops all that it has translated of the old kernel bit
// by bit, as the new one is written over it, which takes longer than the start. It flushes the
// disk then, which a restart of the system has done before, and a panic would not.
type machine struct {
	board       []string // the emulator and its arguments
	disks       *tape.Tape
	ended       chan struct{} // closed when the board is off
	complaint   bytes.Buffer  // of the board; to be read when it is off
	start       time.Time
	http, https string // addresses on this machine
	mqtt        string
	log         string // of the console
	name        string // of its sockets

	mu       sync.Mutex // guards what follows
	emulator *exec.Cmd  // of this start
	console  net.Conn
	monitor  net.Conn
	restarts chan bool // whether the emulator ended because the board restarts
	off      bool      // it is not started again
	failure  error     // of a restart
}

// powerOn starts the machine. It has no generator of random numbers, as many a board: with one,
// the kernel would hide its own addresses, which on this processor costs the emulator a third.
// Its firmware waits for no key.
func (t *trial) powerOn(ctx context.Context, p power) (*machine, error) {
	t.starts++
	name := filepath.Join(t.dir, fmt.Sprintf("start%02d", t.starts))
	m := newMachine(name)
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
	m.board = append(m.board, "-M", "virt", "-cpu", "cortex-a53", "-accel", "tcg,thread=multi",
		"-m", "512", "-smp", "2", "-boot", "menu=on,splash-time=0",
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+firmwareCode,
		"-drive", "if=pflash,format=raw,unit=1,file=nbd:unix:"+name+".vars",
		"-serial", "chardev:console",
		"-drive", "file=nbd:unix:"+name+".disk,format=raw,if=none,id=disk,cache=writeback",
		"-device", "virtio-blk-pci,drive=disk",
		"-device", "i6300esb",
		"-netdev", fmt.Sprintf("user,id=net,hostfwd=tcp:%s-:80,hostfwd=tcp:%s-:443,hostfwd=tcp:%s-:1883", m.http, m.https, m.mqtt),
		"-device", "virtio-net-pci,netdev=net,romfile=")
	return m, m.begin(ctx)
}

// newMachine returns a machine whose sockets and log have this name.
func newMachine(name string) *machine {
	m := &machine{start: time.Now(), ended: make(chan struct{}), log: name + ".log", name: name}
	m.board = []string{
		"qemu-system-aarch64", "-no-reboot", "-display", "none",
		"-chardev", "socket,id=console,path=" + name + ".console,server=on,wait=off,logappend=on,logfile=" + m.log,
		"-qmp", "unix:" + name + ".monitor,server=on,wait=off",
	}
	return m
}

// begin starts the machine, and starts it again whenever it restarts.
func (m *machine) begin(ctx context.Context) error {
	if err := m.turnOn(ctx); err != nil {
		close(m.ended)
		return errors.Join(err, m.cutPower())
	}
	go func() {
		defer close(m.ended)
		for m.emulator.Wait() == nil && <-m.restarts && m.turnOn(ctx) == nil {
		}
	}()
	return nil
}

// turnOn starts the emulator, unless the machine is to be off.
func (m *machine) turnOn(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off {
		return errors.New("the machine is to be off")
	}
	m.emulator = child(ctx, m.board[0], m.board[1:]...)
	m.emulator.Stderr = &m.complaint
	if m.failure = m.emulator.Start(); m.failure != nil {
		return m.failure
	}
	if m.failure = m.attach(ctx); m.failure != nil {
		_ = m.emulator.Process.Kill()
		_ = m.emulator.Wait() // with the error of having been killed
	}
	return m.failure
}

// attach connects to the console, whose output would hold the emulator up otherwise and is in
// the log, and to the monitor, which says how the emulator ended.
func (m *machine) attach(ctx context.Context) error {
	dial := func(name string) (conn net.Conn, err error) {
		err = await(ctx, 20*time.Second, "the emulator runs", func() (err error) {
			conn, err = net.Dial("unix", m.name+name)
			return err
		})
		return conn, err
	}
	console, err := dial(".console")
	if err != nil {
		return err
	}
	monitor, err := dial(".monitor")
	if err != nil {
		return errors.Join(err, console.Close())
	}
	go func() { _, _ = io.Copy(io.Discard, console) }()
	restarts := make(chan bool, 1)
	go func() {
		text, _ := io.ReadAll(monitor) // ends with the emulator
		restarts <- bytes.Contains(text, []byte(`"guest-reset"`))
	}()
	m.console, m.monitor, m.restarts = console, monitor, restarts
	_, err = io.WriteString(monitor, `{"execute": "qmp_capabilities"}`)
	return err
}

// write writes to the console.
func (m *machine) write(text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := io.WriteString(m.console, text)
	return err
}

// switchOff says that the machine is not to be started again, and returns its emulator.
func (m *machine) switchOff() *os.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = true
	return m.emulator.Process
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
	if board := m.switchOff(); board != nil {
		_ = board.Kill() // it may have ended
	}
	<-m.ended
	return m.disks.Cut(everything)
}

// pressButton presses the power button of the machine until it switches itself off: soon
// after a start nobody attends to it yet. Its disk then holds everything.
func (m *machine) pressButton(ctx context.Context) error {
	m.switchOff()
	for range 12 {
		if _, err := io.WriteString(m.monitor, `{"execute": "system_powerdown"}`); err != nil && m.alive() == nil {
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
		return errors.Join(fmt.Errorf("the machine has gone off: %s", m.complaint.String()), m.failure)
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
