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
	"strings"
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

// machine is the emulated board, running. Each restart of it is a new emulator process: an old
// one would invalidate its translated code page by page, as the next kernel overwrites it, which
// takes longer than a start. The old process flushes the disk as it exits, which a real board does
// not do: while an update is recorded, the emulator stays.
type machine struct {
	command     []string // the emulator and its arguments
	disks       *tape.Tape
	ended       chan struct{} // closed when the board is off
	stderr      bytes.Buffer  // of the emulator; to be read when it has ended
	start       time.Time
	http, https string // addresses on this machine
	mqtt        string
	log         string // of the console
	name        string // of its sockets

	mu       sync.Mutex // guards what follows
	emulator *exec.Cmd  // of this start
	console  net.Conn
	monitor  net.Conn
	says     chan string // all that the monitor has said, when the emulator has ended
	off      bool        // it is not started again
	failure  error       // of a restart

	switchedOff bool // by the system itself; to be read when it is off
}

// powerOn starts the machine. It has no random number generator, as many boards: with one, the
// kernel would enable KASLR and KPTI, which makes the emulation a third slower. Its firmware waits
// for no key.
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
	m.command = append(m.command, "-M", "virt", "-cpu", "cortex-a53", "-accel", "tcg,thread=multi",
		"-m", "512", "-smp", "2", "-boot", "menu=on,splash-time=0",
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+firmwareCode,
		"-drive", "if=pflash,format=raw,unit=1,file=nbd:unix:"+name+".vars",
		"-serial", "chardev:console",
		"-drive", "file=nbd:unix:"+name+".disk,format=raw,if=none,id=disk,cache=writeback",
		"-device", "virtio-blk-pci,drive=disk",
		"-device", "i6300esb",
		"-netdev", fmt.Sprintf("user,id=net,hostfwd=tcp:%s-:80,hostfwd=tcp:%s-:443,hostfwd=tcp:%s-:1883", m.http, m.https, m.mqtt),
		"-device", "virtio-net-pci,netdev=net,romfile=")
	if p.record == "" {
		m.command = append(m.command, "-no-reboot")
	}
	return m, m.supervise(ctx)
}

// newMachine returns a machine whose sockets and log have this name.
func newMachine(name string) *machine {
	m := &machine{start: time.Now(), ended: make(chan struct{}), log: name + ".log", name: name}
	m.command = []string{
		"qemu-system-aarch64", "-display", "none",
		"-chardev", "socket,id=console,path=" + name + ".console,server=on,wait=off,logappend=on,logfile=" + m.log,
		"-qmp", "unix:" + name + ".monitor,server=on,wait=off",
	}
	return m
}

// supervise starts the machine, and starts it again whenever it restarts.
func (m *machine) supervise(ctx context.Context) error {
	if err := m.startEmulator(ctx); err != nil {
		close(m.ended)
		return errors.Join(err, m.cutPower())
	}
	go func() {
		defer close(m.ended)
		for m.emulator.Wait() == nil {
			end := <-m.says
			m.switchedOff = strings.Contains(end, `"guest-shutdown"`)
			if !strings.Contains(end, `"guest-reset"`) || m.startEmulator(ctx) != nil {
				break
			}
		}
	}()
	return nil
}

// startEmulator starts the emulator, unless the machine is to be off.
func (m *machine) startEmulator(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off {
		return errors.New("the machine is to be off")
	}
	m.emulator = child(ctx, m.command[0], m.command[1:]...)
	m.emulator.Stderr = &m.stderr
	if m.failure = m.emulator.Start(); m.failure != nil {
		return m.failure
	}
	if m.failure = m.attach(ctx); m.failure != nil {
		_ = m.emulator.Process.Kill()
		_ = m.emulator.Wait() // with the error of having been killed
		m.failure = fmt.Errorf("%w: %s", m.failure, m.stderr.String())
	}
	return m.failure
}

// attach connects to the console, whose output would hold the emulator up otherwise and is in
// the log, and to the monitor, which says how the emulator ended.
func (m *machine) attach(ctx context.Context) error {
	dial := func(name string) (conn net.Conn, err error) {
		err = await(ctx, "the emulator runs", func() (err error) {
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
	says := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(monitor) // ends with the emulator
		says <- string(text)
	}()
	m.console, m.monitor, m.says = console, monitor, says
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

// preventRestart says that the machine is not to be started again, and returns its emulator.
func (m *machine) preventRestart() *os.Process {
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
	if emulator := m.preventRestart(); emulator != nil {
		_ = emulator.Kill() // it may have ended
	}
	<-m.ended
	return m.disks.Cut(everything)
}

// pressButton presses the power button of the machine until it switches itself off: soon
// after a start nobody attends to it yet. Its disk then holds everything.
func (m *machine) pressButton(ctx context.Context) error {
	vain := time.After(patience)
	for {
		m.mu.Lock()
		_, _ = io.WriteString(m.monitor, `{"execute": "system_powerdown"}`) // it may restart just now
		m.mu.Unlock()
		select {
		case <-m.ended:
			if !m.switchedOff {
				return m.checkRunning()
			}
			m.disks.Stop()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-vain:
			return fmt.Errorf("the machine did not switch itself off within %s (the console is in %s)", patience, m.log)
		case <-time.After(15 * time.Second):
		}
	}
}

// onSince returns for how many seconds the machine has been on.
func (m *machine) onSince() float64 { return time.Since(m.start).Seconds() }

// checkRunning returns an error if the machine has ended.
func (m *machine) checkRunning() error {
	select {
	case <-m.ended:
		return errors.Join(fmt.Errorf("the machine has gone off: %s", m.stderr.String()), m.failure)
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
