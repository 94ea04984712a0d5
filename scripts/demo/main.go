// Command demo shows a lock opening: it builds the gateway, runs it on loopback
// with its data in a temporary folder, applies the example site, starts simulated
// stations, logs in, unlocks lock-1, and goes on running until it is interrupted.
// It prints each step with the command that does the same by hand, and leaves
// nothing behind.
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

	"golang.org/x/term"
)

// The account and the station of the example site; they are examples and stand in
// configs/site.example.toml.
const (
	exampleSite = "configs/site.example.toml"
	email       = "porter@example.test"
	station     = 1042
	patience    = 20 * time.Second // for each step after the build
)

func main() {
	runtime.LockOSThread() // children end with the thread that started them: the first one
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one running demonstration.
type demo struct {
	dir, binary string
	env         []string
	base        string // http://127.0.0.1:…
	broker      string
	children    []*exec.Cmd
	logs        []*os.File
}

func run(ctx context.Context) (err error) {
	if _, err := os.Stat(exampleSite); err != nil {
		return errors.New("run it from the top folder of the repository: make demo")
	}
	dir, err := os.MkdirTemp("", "gatehouse-demo-")
	if err != nil {
		return fmt.Errorf("making a temporary folder: %w", err)
	}
	d := &demo{dir: dir, binary: filepath.Join(dir, "gatehouse")}
	defer func() {
		d.end()
		fmt.Println("\nStopped; nothing is left behind.")
	}()
	for _, step := range []func(context.Context) error{
		d.build, d.serve, d.apply, d.simulate, d.unlockDoor, d.journal, d.goOn,
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
		timer := time.AfterFunc(10*time.Second, func() { _ = child.Process.Kill() })
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
