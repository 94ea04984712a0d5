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

	"gatehouse/internal/config"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/site"
)

// passphraseVariable holds the passphrase of a backup where there is no terminal.
const passphraseVariable = "GATEHOUSE_PASSPHRASE"

// passphraseFlag adds the flag with the file of the passphrase.
func passphraseFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "passphrase-file", "", "read the passphrase from the first line of `FILE`, or of /dev/stdin")
}

// passphrase returns the passphrase in the file or the environment, else the one that is
// typed at the terminal. For a new backup it offers a generated one there.
func (a *app) passphrase(ctx context.Context, file string, fresh bool) (site.Secret, error) {
	if file != "" {
		f, err := os.Open(file) //nolint:gosec // the administrator names it
		if err != nil {
			return "", fmt.Errorf("reading the passphrase: %w", err)
		}
		defer func() { _ = f.Close() }()
		text, err := firstLine(file, f)
		return site.Secret(text), err
	}
	if value := config.Lookup(a.environ, passphraseVariable); value != "" {
		return site.Secret(value), nil
	}
	terminal, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return "", wrongUsagef("the passphrase is missing: write it to a file and name that with --passphrase-file, or set %s, or run this in a terminal", passphraseVariable)
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

// firstLine reads the first line of a secret; name is where from, for errors.
func firstLine(name string, r io.Reader) (string, error) {
	const most = 4096 // more than any secret that the gateway accepts
	line, err := bufio.NewReader(io.LimitReader(r, most)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", fmt.Errorf("the first line of %s is empty: write the secret there", name)
	}
	return line, nil
}

// interruptible returns what read returns, or the error of ctx if that ends first. Then
// reading continues until the process ends.
func interruptible(ctx context.Context, read func() (string, error)) (string, error) {
	done := make(chan struct{})
	var text string
	var err error
	go func() {
		defer close(done)
		text, err = read()
	}()
	select {
	case <-done:
		return text, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// ask reads a line from the terminal without showing it. After an interrupt the terminal
// is as it was.
func (a *app) ask(ctx context.Context, terminal *os.File, question string) (site.Secret, error) {
	fd := int(terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("asking for the passphrase: %w", err)
	}
	_, _ = fmt.Fprint(a.stderr, question)
	text, err := interruptible(ctx, func() (string, error) {
		text, err := term.ReadPassword(fd)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("asking for the passphrase: %w", err)
		}
		return string(text), nil
	})
	_, _ = fmt.Fprintln(a.stderr)
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), term.Restore(fd, before))
	}
	return site.Secret(text), err
}
