package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gatehouse/internal/record/backup"
	"gatehouse/internal/site"
)

// passphraseVariable gives the passphrase of a backup to who runs this without a
// terminal.
const passphraseVariable = "GATEHOUSE_PASSPHRASE"

// passphraseFlags say where the passphrase comes from.
type passphraseFlags struct {
	file  string
	stdin bool
}

func (p *passphraseFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.file, "passphrase-file", "", "read the passphrase from the first line of `FILE`")
	cmd.Flags().BoolVar(&p.stdin, "passphrase-stdin", false, "read the passphrase from the first line of standard input")
}

// passphrase returns the passphrase that the flags or the environment name, else the
// one that is typed at the terminal. For a new backup it offers a generated one there.
func (a *app) passphrase(ctx context.Context, p passphraseFlags, fresh bool) (site.Secret, error) {
	value, set := a.lookup(passphraseVariable)
	switch {
	case p.file != "":
		return passphraseOfFile(p.file)
	case p.stdin:
		return readPassphrase("standard input", a.stdin)
	case set && value == "":
		return "", errors.New(passphraseVariable + " is empty: set it to the passphrase")
	case set:
		return site.Secret(value), nil
	}
	terminal, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return "", wrongUsagef("the passphrase is missing: give it with --passphrase-file, --passphrase-stdin or %s, or run this in a terminal", passphraseVariable)
	}
	if fresh {
		return a.newPassphrase(ctx, terminal)
	}
	return a.ask(ctx, terminal, "Passphrase of the backup: ")
}

// newPassphrase offers a generated passphrase. It asks twice for one that the operator
// types.
func (a *app) newPassphrase(ctx context.Context, terminal *os.File) (site.Secret, error) {
	offered := backup.GeneratePassphrase()
	_, _ = fmt.Fprintf(a.stderr, "A new passphrase for this backup:\n\n    %s\n\n"+
		"Write it down, apart from the backup, and press Enter to use it; or type one of your own,\nof at least %d characters.\n",
		offered.Reveal(), backup.MinPassphrase)
	given, err := a.ask(ctx, terminal, "Passphrase of the backup: ")
	if err != nil || given == "" || given == offered {
		return offered, err
	}
	if err := backup.JudgePassphrase(given); err != nil {
		return "", err
	}
	again, err := a.ask(ctx, terminal, "The same again: ")
	if err == nil && again != given {
		err = errors.New("the two passphrases differ: try again")
	}
	return given, err
}

// lookup gives the value of an environment variable, and whether it is set.
func (a *app) lookup(name string) (value string, set bool) {
	for _, entry := range a.environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value, set = v, true
		}
	}
	return value, set
}

func passphraseOfFile(path string) (site.Secret, error) {
	f, err := os.Open(path) //nolint:gosec // the administrator names it
	if err != nil {
		return "", fmt.Errorf("reading the passphrase: %w", err)
	}
	defer func() { _ = f.Close() }()
	return readPassphrase(path, f)
}

// readPassphrase gives the first line of what is read.
func readPassphrase(name string, r io.Reader) (site.Secret, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxPassword)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the passphrase: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", fmt.Errorf("the first line of %s is empty: write the passphrase there", name)
	}
	return site.Secret(line), nil
}

// ask reads a line from the terminal without showing it. Whoever interrupts gets the
// terminal back as it was.
func (a *app) ask(ctx context.Context, terminal *os.File, question string) (site.Secret, error) {
	fd := int(terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("asking for the passphrase: %w", err)
	}
	_, _ = fmt.Fprint(a.stderr, question)
	type reading struct {
		text []byte
		err  error
	}
	read := make(chan reading, 1)
	go func() { // whoever types may also interrupt; then it lives until the process ends
		text, err := term.ReadPassword(fd)
		read <- reading{text, err}
	}()
	select {
	case r := <-read:
		_, _ = fmt.Fprintln(a.stderr)
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return "", fmt.Errorf("asking for the passphrase: %w", r.err)
		}
		return site.Secret(r.text), nil
	case <-ctx.Done():
		_, _ = fmt.Fprintln(a.stderr)
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}
