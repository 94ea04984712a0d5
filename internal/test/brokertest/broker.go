package brokertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/test/await"
)

// Broker is one broker of a cloud, a process of its own.
type Broker struct {
	Name    string // "mosquitto" or "nats", for messages
	address string
	args    []string // of the program, which is the first
	options options
	log     string // path
	process *exec.Cmd
	ended   chan struct{} // closed when process has been reaped
}

// Mosquitto runs Debian's Mosquitto until the test ends.
func Mosquitto(t testing.TB, with ...Option) *Broker {
	t.Helper()
	return run(t, mosquitto{t}.prepare, with)
}

// NATS runs a NATS server with JetStream and MQTT until the test ends.
func NATS(t testing.TB, with ...Option) *Broker {
	t.Helper()
	return run(t, newNATS, with)
}

func run(t testing.TB, prepare func(dir string, o options) (*Broker, error), with []Option) *Broker {
	t.Helper()
	b, err := prepare(t.TempDir(), apply(with))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", b.Name, b.Log())
		}
	})
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// Address is host:port of its MQTT listener.
func (b *Broker) Address() string { return b.address }

// URL is the same as a gateway's configuration names it.
func (b *Broker) URL() string {
	if b.options.tls() {
		return "tls://" + b.address
	}
	return "tcp://" + b.address
}

// PID is the id of its process.
func (b *Broker) PID() int { return b.process.Process.Pid }

// Log returns the end of what it has logged.
func (b *Broker) Log() string {
	const most = 16 << 10
	text, err := os.ReadFile(b.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// Kill ends the broker with SIGKILL and waits until it is gone. It does nothing where
// none runs.
func (b *Broker) Kill() {
	if b.process == nil {
		return
	}
	_ = b.process.Process.Kill()
	<-b.ended
	b.process = nil
}

// Start starts the broker, again after [Broker.Kill]: on the same port, with the data
// that it has kept. It returns when the broker takes connections.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.Launch(); err != nil {
		return err
	}
	return b.Await(ctx)
}

// Launch starts the process and does not wait; [Broker.Await] does. The members of a
// cluster wait for each other.
func (b *Broker) Launch() error {
	log, err := os.OpenFile(b.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("starting %s: %w", b.Name, err)
	}
	defer func() { _ = log.Close() }()
	b.process = exec.Command(b.args[0], b.args[1:]...) //nolint:gosec,noctx // our own arguments; ended by Kill
	b.process.Stdout, b.process.Stderr = log, log
	// A group of its own, so that Ctrl-C reaches only the program that started it; and the kernel
	// ends it should that one be killed.
	b.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := b.process.Start(); err != nil {
		b.process = nil
		return fmt.Errorf("starting %s: %w", b.Name, err)
	}
	ended, process := make(chan struct{}), b.process
	b.ended = ended
	go func() {
		defer close(ended)
		_ = process.Wait()
	}()
	return nil
}

// Await returns when the broker takes connections.
func (b *Broker) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, await.Patience) // real time: the one patience, also for a caller that is no test
	defer cancel()
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := b.ended
	go func() {
		defer stop()
		select {
		case <-ended:
		case <-running.Done():
		}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := b.greet(running)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("%s ended by itself:\n%s", b.Name, b.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w\n%s", b.Name, err, b.Log())
		case <-tick.C:
		}
	}
}

// greet connects as a client does and wants the answer to its CONNECT; of a broker
// that asks for credentials any answer, of one with TLS the connection alone.
func (b *Broker) greet(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", b.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if b.options.tls() {
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// CONNECT of MQTT 3.1.1: clean session, no keepalive, any client id.
	hello := []byte{0x10, 12, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, 0}
	if _, err := conn.Write(hello); err != nil {
		return err
	}
	var answer [4]byte
	if n, err := conn.Read(answer[:]); err != nil || n != len(answer) {
		return errors.Join(fmt.Errorf("%d bytes came in answer to a CONNECT", n), err)
	}
	if answer[3] != 0 && len(b.options.users) == 0 {
		return fmt.Errorf("it refuses connections, code %d", answer[3])
	}
	return nil
}

// root returns the top folder of the repository: the one with go.mod at or above the
// current one, which for a test is that of its package.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod")) //nolint:gosec // looked for on purpose
		if err == nil && strings.HasPrefix(string(text), "module gatehouse\n") {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("looking for the repository: run it within")
		}
		dir = up
	}
}
