package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a child may take to end after SIGTERM, before SIGKILL.
const stopGrace = 10 * time.Second

// tail keeps the last bytes that a child wrote, for the error text. Reading a
// server's log through a pipe, as a journal does, keeps it out of the server's
// own count of written bytes. Safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	data []byte // mu guards data
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if len(t.data) > 2*tailSize {
		t.data = append(t.data[:0], t.data[len(t.data)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.data))
}

// child is a process that the harness started and ends by its own handle.
type child struct {
	cmd    *exec.Cmd
	log    *tail
	cancel context.CancelFunc
	done   chan struct{} // closed when the process has been reaped
}

// startChild runs name with args. prepare may set the environment and the pipes.
// The process ends on stop, when ctx ends, or when the harness dies; for the
// last, startChild must be called on the locked main thread.
func startChild(ctx context.Context, prepare func(*exec.Cmd) error, name string, args ...string) (*child, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &child{log: &tail{}, cancel: cancel, done: make(chan struct{})}
	c.cmd = exec.CommandContext(ctx, name, args...)
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = stopGrace
	c.cmd.Stderr = c.log
	// A group of its own: Ctrl-C reaches the harness alone, which then ends its
	// children in order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if prepare != nil {
		if err := prepare(c.cmd); err != nil {
			cancel()
			return nil, err
		}
	}
	if err := c.cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(c.done)
		_ = c.cmd.Wait()
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop ends the process and waits until it is gone.
func (c *child) stop() {
	c.cancel()
	<-c.done
}

// exited reports whether the process has ended by itself or otherwise.
func (c *child) exited() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// role is this program started again as a server, the load or the stations. It
// is asked in JSON on its standard input and answers on its standard output,
// one document for one document; it ends when its input does.
type role struct {
	*child
	name string
	ask  *json.Encoder
	hear *json.Decoder
}

// startRole starts the named role and returns it its first question, the job.
// answer, if not nil, is filled with what it says to that.
func startRole(ctx context.Context, name string, job, answer any) (*role, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the harness itself: %w", err)
	}
	r := &role{name: name}
	pipes := func(cmd *exec.Cmd) error {
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		r.ask, r.hear = json.NewEncoder(in), json.NewDecoder(out)
		return nil
	}
	if r.child, err = startChild(ctx, pipes, self, roleFlag+name); err != nil {
		return nil, err
	}
	if job == nil {
		return r, nil
	}
	if err := r.call(job, answer); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// call asks one question and waits for its answer.
func (r *role) call(question, answer any) error {
	if err := r.ask.Encode(question); err != nil {
		return fmt.Errorf("asking the %s: %w: %s", r.name, err, r.log)
	}
	if err := r.hear.Decode(answer); err != nil {
		return fmt.Errorf("hearing the %s: %w: %s", r.name, err, r.log)
	}
	return nil
}

// boss is the other end of a role's pipes: the harness, seen from the role.
type boss struct {
	in  *json.Decoder
	out *json.Encoder
}

func newBoss() *boss {
	return &boss{in: json.NewDecoder(os.Stdin), out: json.NewEncoder(os.Stdout)}
}

// receive reads the next question; io.EOF says that the role is over.
func (b *boss) receive(question any) error { return b.in.Decode(question) }

func (b *boss) answer(v any) error { return b.out.Encode(v) }

// dismissed waits until the harness closes the role's input.
func (b *boss) dismissed() error {
	var none json.RawMessage
	if err := b.in.Decode(&none); !errors.Is(err, io.EOF) {
		return fmt.Errorf("waiting for the end: unexpected input (%w)", err)
	}
	return nil
}
