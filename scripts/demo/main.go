// Command demo shows a lock opening: it builds the gateway, runs it on loopback
// with its data in a temporary folder, applies the example site, starts simulated
// stations, logs in, unlocks lock-1, and keeps running until it is interrupted.
// It prints each step with the command that does the same by hand, and removes
// everything at its end. The end by Ctrl-C is a success, also for the make that
// started it: see [ownTerminal].
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// The account and the station of the example site, which are in
// configs/site.example.toml.
const (
	exampleSite = "configs/site.example.toml"
	email       = "porter@example.test"
	station     = 1042
	patience    = 3 * time.Minute // bounds each step after the build; it is no measure of speed
)

func main() {
	runtime.LockOSThread() // children end with the thread that started them: the first one
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	giveBack := ownTerminal()
	err := run(ctx)
	giveBack()
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// ownTerminal makes this process alone the foreground of its terminal, and returns a
// function that undoes that. Ctrl-C then interrupts the demonstration but not make, which
// would end with status 130 for a target that succeeded.
func ownTerminal() (giveBack func()) {
	in := int(os.Stdin.Fd())
	before, err := unix.IoctlGetInt(in, unix.TIOCGPGRP)
	if err != nil || before != unix.Getpgrp() {
		return func() {} // no terminal, or in the background
	}
	signal.Ignore(syscall.SIGTTOU, syscall.SIGTSTP) // a make that is not stopped too would block the terminal
	set := func(group int) { _ = unix.IoctlSetPointerInt(in, unix.TIOCSPGRP, group) }
	if unix.Setpgid(0, 0) == nil {
		set(unix.Getpid())
	}
	return func() { set(before) }
}

// demo is one running demonstration.
type demo struct {
	dir, binary string
	env         []string
	base        string // http://127.0.0.1:…
	broker      string
	station     string // its token
	access      string // the access token
	children    []*exec.Cmd
	logs        []*os.File
}

func run(ctx context.Context) (err error) {
	if _, err := os.Stat(exampleSite); err != nil {
		return errors.New("run it from the top folder of the repository: make demo")
	}
	dir, err := os.MkdirTemp("", "gatehouse-demo-")
	if err != nil {
		return fmt.Errorf("creating a temporary folder: %w", err)
	}
	d := &demo{dir: dir, binary: filepath.Join(dir, "gatehouse")}
	defer func() {
		d.end()
		fmt.Println("\nStopped. Everything was removed.")
	}()
	for _, step := range []func(context.Context) error{
		d.build, d.serve, d.apply, d.simulate, d.unlockDoor, d.journal, d.follow,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// end stops the children in reverse order and removes the folder.
func (d *demo) end() {
	for i := len(d.children) - 1; i >= 0; i-- {
		child := d.children[i]
		_ = child.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(patience, func() { _ = child.Process.Kill() })
		_ = child.Wait()
		timer.Stop()
	}
	for _, f := range d.logs {
		_ = f.Close()
	}
	_ = os.RemoveAll(d.dir)
}

func title(text string)   { fmt.Printf("\n%s\n", bold(text)) }
func command(text string) { fmt.Printf("  $ %s\n", text) }

// bold is for terminals; a pipe gets plain text.
func bold(text string) string {
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		return text
	}
	return "\033[1m" + text + "\033[0m"
}

// show prints an answer, indented.
func show(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Println("    " + line)
	}
}
