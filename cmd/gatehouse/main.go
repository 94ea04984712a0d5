// Command gatehouse is the gateway and its command line: `gatehouse serve` runs
// the gateway, every other command talks to a running one over its
// administration socket. This package holds flags, subcommands and how their
// results are written, and nothing else; what a command does lies behind package
// adminapi/client, and for serve behind package gateway.
//
// How it behaves, for scripts:
//
//   - Exit status 0: done. 1: it failed, and one line on standard error says why
//     and what to do. 2: wrong usage, with a hint at the help. Where a file has
//     several problems, each has its own line.
//   - Standard output holds the result only; with --json it is one JSON document,
//     or one per line when following.
//   - Nothing is asked: no command waits for a person at a terminal, but for the
//     passphrase of a backup that nothing else gives.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // boards often carry no time zones of their own
)

// version is set by the linker (-X main.version=1.2.3).
var version = "dev"

// The exit statuses (contract, section 5).
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx := untilSignalled(context.Background())
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// run is the whole program but for the process around it; it gives the exit
// status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	a := &app{
		stdin: stdin, stdout: stdout, stderr: stderr, environ: environ,
		now: time.Now, zone: time.Local,
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return a.exit(cmd, err)
}

// untilSignalled gives a context that ends with the first SIGINT or SIGTERM; the
// second ends the process at once.
func untilSignalled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() { // lives as long as the process
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailed)
	}()
	return ctx
}
