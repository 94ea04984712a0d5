// Command gatehouse is the gateway and its command line: `gatehouse serve` runs
// the gateway, most other commands talk to a running one over its
// administration socket. This package holds flags, subcommands and the output of
// results; what a command does is in the packages below, for most of them behind
// adminapi/client.
//
// How it behaves, for scripts:
//
//   - Exit status 0: done. 1: it failed, and one line on standard error says why
//     and what to do. 2: wrong usage, with a hint at the help. Where a file has
//     several problems, each has its own line.
//   - Standard output holds the result only; with --json it is one JSON document,
//     or one per line when following.
//   - No command asks at a terminal, except for the passphrase of a backup where no
//     flag or variable has it.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
	_ "time/tzdata" // boards often carry no time zones of their own

	"github.com/spf13/cobra"
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// run is the whole program but for the process around it; it returns the exit
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

// build identifies this program.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long:  "Print the version of this program. \"gatehouse status\" prints that of the running\ngateway.",
	}, func(context.Context, []string) error {
		info := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
		return a.result(info, func(w *lines) { w.printf("gatehouse %s (%s, %s)", info.Version, info.Go, info.Platform) })
	})
}
