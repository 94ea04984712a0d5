package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/test/await"
)

// end is the line after which the demonstration waits for its end.
const end = "Ctrl-C ends the demonstration."

// Ctrl-C is the way to end the demonstration, so it is a success.
func TestMakeDemo_interrupted(t *testing.T) {
	temporary := t.TempDir()
	terminal, screen := openTerminal(t)
	demo := makeDemo(t, temporary, screen)
	demo.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	_ = screen.Close()
	lines := bufio.NewScanner(terminal)
	awaitEnd(t, lines)
	if _, err := terminal.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	rest := ""
	for lines.Scan() {
		rest += lines.Text() + "\n"
	}
	if err := demo.Wait(); err != nil || strings.Contains(rest, "***") {
		t.Errorf("make demo: %v\n%s", err, rest)
	}
	isEmpty(t, temporary)
}

// A SIGTERM to make ends everything that it started.
func TestMakeDemo_terminated(t *testing.T) {
	temporary := t.TempDir()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	demo := makeDemo(t, temporary, to)
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	_ = to.Close()
	awaitEnd(t, bufio.NewScanner(from))
	processes := descendants(t, demo.Process.Pid)
	if len(processes) < 3 {
		t.Errorf("%d processes, want the demonstration, the gateway and the stations", len(processes))
	}
	if err := demo.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = demo.Wait()
	for pid, fd := range processes {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(await.Patience.Milliseconds()))
		if n != 1 {
			t.Errorf("process %d still runs: %v", pid, err)
		}
	}
	isEmpty(t, temporary)
}

func makeDemo(t *testing.T, temporary string, terminal *os.File) *exec.Cmd {
	t.Helper()
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	demo := exec.CommandContext(t.Context(), "make", "demo")
	demo.Dir = "../.."
	demo.Env = append(os.Environ(), "TMPDIR="+temporary, "GOTMPDIR="+t.TempDir(), "GOCACHE="+strings.TrimSpace(string(cache)))
	demo.Stdin, demo.Stdout, demo.Stderr = terminal, terminal, terminal
	return demo
}

func awaitEnd(t *testing.T, lines *bufio.Scanner) {
	t.Helper()
	seen := ""
	for lines.Scan() {
		seen += lines.Text() + "\n"
		if strings.Contains(lines.Text(), end) {
			return
		}
	}
	t.Fatalf("the demonstration ended (%v):\n%s", lines.Err(), seen)
}

// descendants returns a descriptor of each process that pid or its children started.
func descendants(t *testing.T, pid int) map[int]int {
	t.Helper()
	parents := map[int]int{}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		var child, parent int
		_, after, _ := strings.Cut(string(text), ") ") // behind the name
		if _, err := fmt.Sscanf(after, "%1s %d", new(string), &parent); err != nil {
			t.Fatal(err)
		}
		child, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parents[child] = parent
	}
	found := map[int]int{}
	for child := range parents {
		for above := parents[child]; above != 0; above = parents[above] {
			if above != pid {
				continue
			}
			fd, err := unix.PidfdOpen(child, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Close(fd) })
			found[child] = fd
		}
	}
	return found
}

func isEmpty(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// openTerminal returns the two ends of a new terminal.
func openTerminal(t *testing.T) (terminal, screen *os.File) {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	if err := unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return terminal, screen
}
