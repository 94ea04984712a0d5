package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a pseudo-terminal (pty(7)) of 80 by 6.
func openTerminal(t *testing.T) (far, screen *os.File) {
	t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	fd := int(far.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 6, Col: 80}); err != nil {
		t.Fatal(err)
	}
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	return far, screen
}

// readUntil reads what arrives on the terminal until it holds text.
func readUntil(t *testing.T, far *os.File, seen *strings.Builder, text string) {
	t.Helper()
	buffer := make([]byte, 4096)
	for !strings.Contains(seen.String(), text) {
		n, err := far.Read(buffer)
		if err != nil {
			t.Fatalf("waiting for %q: %v; seen %q", text, err, seen.String())
		}
		seen.Write(buffer[:n])
	}
}
