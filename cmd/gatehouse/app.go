package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// app is one invocation of the command line.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string
	now     func() time.Time
	zone    *time.Location // of times that people read and write: the site's, once the gateway was asked

	json   bool   // --json
	socket string // --socket
	config string // --config

	started bool // a command has begun: errors are no longer wrong usage
}

// errUsage is wrong usage that only the body of a command can see.
type errUsage struct{ error }

func wrongUsage(err error) error { return errUsage{err} }

func wrongUsagef(format string, args ...any) error { return errUsage{fmt.Errorf(format, args...)} }

// exit writes what went wrong with cmd, and returns the exit status.
func (a *app) exit(cmd *cobra.Command, err error) int {
	_, isUsage := errors.AsType[errUsage](err)
	switch {
	case err == nil:
		return exitDone
	case isUsage || !a.started:
		a.complain(err.Error())
		_, _ = fmt.Fprintf(a.stderr, "Run '%s --help' for how to use it.\n", cmd.CommandPath())
		return exitUsage
	case errors.Is(err, context.Canceled):
		a.complain("interrupted")
		return exitFailed
	default:
		a.complain(describe(err))
		return exitFailed
	}
}

// complain writes to standard error, each line under the program's name.
func (a *app) complain(text string) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		_, _ = fmt.Fprintln(a.stderr, "gatehouse: "+printable(strings.TrimRight(line, "\r\n")))
	}
}

// describe returns the sentence for people where err has one; the gateway's log has the
// cause.
func describe(err error) string {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Sentence == "" {
		return err.Error()
	}
	text := lowerFirst(e.Sentence)
	if e.Kind == fault.Internal {
		text += "; the log of the gateway says why"
	}
	if e.RetryAfter > 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(text, " later"), "; try again")
		text += fmt.Sprintf("; try again in %s", e.RetryAfter)
	}
	return text
}

// lowerFirst returns a sentence as it reads behind "gatehouse: " or another one.
// Abbreviations and names of files stay as they are.
func lowerFirst(sentence string) string {
	word, _, _ := strings.Cut(sentence, " ")
	if word == "" || strings.IndexFunc(word[1:], func(r rune) bool { return !unicode.IsLower(r) && r != '\'' }) >= 0 {
		return sentence
	}
	return strings.ToLower(sentence[:1]) + sentence[1:]
}

// settings reads the configuration as serve does.
func (a *app) settings() (config.Config, error) { return config.Load(a.config, a.environ) }

// serviceSocket is where the packaged service listens for administrators.
const serviceSocket = "/run/gatehouse/admin.sock"

// gateway returns a client of the gateway that the flags, the environment or the
// configuration name, in this order.
func (a *app) gateway() (*client.Client, error) {
	path := a.namedSocket()
	if path == "" {
		cfg, err := a.settings()
		switch _, missing := os.Stat(serviceSocket); {
		case err == nil:
			path = cfg.Admin.Socket
		case missing != nil || a.config != "":
			return nil, fmt.Errorf("%w\nname the socket of the gateway with --socket, or correct its configuration", err)
		default: // a mistake in the file must not lock administrators out of a running gateway
			a.complain(err.Error())
			path = serviceSocket
		}
	}
	return client.New(path), nil
}

// namedSocket returns the socket that the flags or the environment name, or "".
func (a *app) namedSocket() string {
	return cmp.Or(a.socket, config.Lookup(a.environ, "GATEHOUSE_SOCKET"))
}

// status returns the state of the gateway.
func (a *app) status(ctx context.Context) (s adminapi.Status, err error) {
	err = a.call(func(gw *client.Client) error {
		s, err = gw.Status(ctx)
		return err
	})
	return s, err
}

// call runs f with the client of the gateway.
func (a *app) call(f func(*client.Client) error) error {
	gw, err := a.gateway()
	if err != nil {
		return err
	}
	defer gw.Close()
	return f(gw)
}
