package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

// echoes reports whether a terminal shows what is typed.
func echoes(t *testing.T, screen *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(screen.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

type asked struct {
	passphrase site.Secret
	err        error
}

// asking asks for a passphrase on a terminal, and waits until it is being asked.
func asking(ctx context.Context, t *testing.T, screen *os.File) <-chan asked {
	t.Helper()
	a := testApp()
	a.stdin, a.stderr = screen, screen
	answer := make(chan asked, 1)
	go func() {
		passphrase, err := a.passphrase(ctx, "", false)
		answer <- asked{passphrase, err}
	}()
	await.Until(t, "the passphrase is asked for", func() bool { return !echoes(t, screen) })
	return answer
}

func TestApp_passphrase_isNotShown(t *testing.T) {
	far, screen := openTerminal(t)
	answer := asking(t.Context(), t, screen)
	if _, err := far.WriteString("four words nobody knows\n"); err != nil {
		t.Fatal(err)
	}
	got := <-answer
	if got.err != nil || got.passphrase != "four words nobody knows" {
		t.Errorf("got %q, %v", got.passphrase.Reveal(), got.err)
	}
	_, _ = screen.WriteString("the end")
	var seen strings.Builder
	readUntil(t, far, &seen, "the end")
	if !strings.HasPrefix(seen.String(), "Passphrase of the backup: ") || strings.Contains(seen.String(), "words") {
		t.Errorf("the terminal shows %q", seen.String())
	}
}

// After an interrupt the terminal is as it was.
func TestApp_passphrase_interrupted(t *testing.T) {
	far, screen := openTerminal(t)
	others := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	answer := asking(ctx, t, screen)
	cancel()
	if got := <-answer; !errors.Is(got.err, context.Canceled) {
		t.Error(got.err)
	}
	if !echoes(t, screen) {
		t.Error("the terminal shows nothing any more")
	}
	_, _ = far.WriteString("\n") // ends the reading that was left
	// It sets the terminal back by its number, which may be another's once this one is closed.
	await.Until(t, "the reading ends", func() bool { return goleak.Find(others) == nil })
}
