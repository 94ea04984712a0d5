package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/door/stationsim"
)

// openTerminal gives both ends of a pseudo-terminal (pty(7)) of 80 by 6.
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

// In a terminal the stations stand in a table on the other screen; at the end the
// terminal is as it was.
func TestApp_show_terminal(t *testing.T) {
	far, screen := openTerminal(t)
	cfg := stationsim.FleetConfig{}
	cfg.Each.Broker.Address = "broker.test:1883"
	for _, s := range statuses(5) {
		cfg.Members = append(cfg.Members, stationsim.Member{ID: s.ID, Name: s.Name, Locks: 1})
	}
	fleet, err := stationsim.NewFleet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := testApp()
	a.stdout = screen
	f := newFeed()
	shown := make(chan error, 1)
	go func() { shown <- a.show(fleet, f, "broker.test:1883") }()

	var seen strings.Builder
	readUntil(t, far, &seen, "… and 3 more")
	f.close()
	readUntil(t, far, &seen, "0 openings.")
	if err := <-shown; err != nil {
		t.Error(err)
	}
	got := seen.String()
	enter, leave := strings.Index(got, enterScreen), strings.Index(got, leaveScreen)
	if enter != 0 || leave < 0 || strings.Index(got, "0 openings.") < leave {
		t.Errorf("the terminal is not given back before the last words: %q", got)
	}
	picture := got[enter:leave]
	if !strings.Contains(picture, "Simulated 2") || strings.Contains(picture, "Simulated 3") {
		t.Errorf("six lines have room for two of five stations: %q", picture)
	}
	if rest := got[leave+len(leaveScreen):]; strings.Contains(rest, "\x1b") {
		t.Errorf("control sequences after the end: %q", rest)
	}
	if strings.Count(picture, toTop) != 1 {
		t.Error("drawn again and again without a change")
	}
}
