package machine_test

import (
	"context"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/test/await"
)

// answering returns a machine on which every program prints text.
func answering(text string, asked *[]string) machine.Machine {
	return machine.Machine{Files: fstest.MapFS{}, Run: func(_ context.Context, program string, args ...string) (string, error) {
		*asked = append([]string{program}, args...)
		return text, nil
	}}
}

func TestMachine_Sockets(t *testing.T) {
	var asked []string
	m := answering(`LISTEN 0      4096    127.0.0.53%lo:53   0.0.0.0:*    users:(("systemd-resolve",pid=300,fd=14))
LISTEN 0      128          0.0.0.0:1883      0.0.0.0:*    users:(("mosquitto",pid=700,fd=5),("sh",pid=701,fd=5))
LISTEN 0      4096               *:443             *:*    users:(("gatehouse",pid=812,fd=8),("systemd",pid=1,fd=40))
LISTEN 0      128            [::1]:8080         [::]:*
LISTEN 0      128   [fe80::1]%eth0:22           [::]:*
nonsense
`, &asked)
	got, err := m.Sockets(t.Context())
	want := map[string]string{
		"53":   "127.0.0.53%lo:53 is open in systemd-resolve (process 300)",
		"1883": "0.0.0.0:1883 is open in mosquitto (process 700)",
		"443":  "*:443 is open in gatehouse (process 812)",
		"8080": "[::1]:8080 is open in a program that only root sees",
		"22":   "[fe80::1]%eth0:22 is open in a program that only root sees",
	}
	if err != nil || !maps.Equal(got, want) || asked[0] != "ss" {
		t.Fatalf("sockets %v, %v, by %v", got, err, asked)
	}
}

func TestMachine_Units(t *testing.T) {
	var asked []string
	m := answering("LoadState=loaded\nDropInPaths=/a /b\nN=3\nEnvironment=A=1 B=2\n\nLoadState=not-found\n", &asked)
	units, err := m.Units(t.Context(), []string{"LoadState", "N"}, "a.service", "b.service")
	if err != nil || len(units) != 2 || !units[0].Loaded() || units[1].Loaded() || units[0].Number("N") != 3 || len(units[0].List("DropInPaths")) != 2 {
		t.Fatalf("units %v, %v", units, err)
	}
	if want := []string{"systemctl", "show", "--no-pager", "--property=LoadState,N", "a.service", "b.service"}; !slices.Equal(asked, want) {
		t.Errorf("asked %v", asked)
	}
	if units, err := m.Units(t.Context(), []string{"N"}, "a", "b", "c"); err == nil {
		t.Errorf("two answers to three questions: %v", units)
	}
	if m.HasSystemd() {
		t.Error("a machine without files has systemd")
	}
}

// This machine answers, whatever it is.
func TestThis(t *testing.T) {
	m := machine.This()
	ctx := await.Context(t)
	if out, err := m.Run(ctx, "echo", "a"); err != nil || out != "a\n" {
		t.Errorf("echo prints %q, %v", out, err)
	}
	if _, err := m.Run(ctx, "no-such-program"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("a program that does not exist: %v", err)
	}
	if _, err := m.Run(ctx, "sh", "-c", "echo of no use >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "of no use") {
		t.Errorf("a program that fails: %v", err)
	}
	short, end := context.WithTimeout(ctx, 50*time.Millisecond) // real time: the program ends long after it, and has to be ended
	defer end()
	if _, err := m.Run(short, "sleep", "60"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a program that hangs: %v", err)
	}
	if room, err := m.Space("/"); err != nil || room.Total <= 0 || room.Free < 0 {
		t.Errorf("room %+v, %v", room, err)
	}
	if !m.Exists("/proc") {
		t.Error("no file is found")
	}
}
