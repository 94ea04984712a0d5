package machine_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/test/await"
)

// manager is the socket on which a service manager hears its services.
func manager(t *testing.T) func() string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func() string {
		t.Helper()
		if err := conn.SetReadDeadline(await.Deadline()); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 4096)
		n, err := conn.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(text[:n])
	}
}

func TestSupervisor_tells(t *testing.T) {
	heard := manager(t)
	t.Setenv("WATCHDOG_USEC", "3000000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	s, err := machine.NewSupervisor()
	if err != nil {
		t.Fatal(err)
	}
	if s.Patience() != 3*time.Second {
		t.Errorf("patience %s", s.Patience())
	}
	if os.Getenv("WATCHDOG_USEC") != "" {
		t.Error("children would take the watchdog for theirs")
	}
	for want, notify := range map[string]func() error{
		"READY=1\nSTATUS=two lines":     func() error { return s.Ready("two\nlines") },
		"STOPPING=1\nSTATUS=Stopping":   s.Stopping,
		"WATCHDOG=1":                    s.Alive,
		"STATUS=READY=1 is no new line": func() error { return s.Status("READY=1\nis no new line") },
	} {
		if err := notify(); err != nil {
			t.Fatal(err)
		}
		if got := heard(); got != want {
			t.Errorf("notified %q, want %q", got, want)
		}
	}
	if err := s.Reloading(); err != nil {
		t.Fatal(err)
	}
	if got := heard(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("notified %q", got)
	}
}

// However long the status is, it goes in one datagram that systemd accepts: with it goes
// that the process serves.
func TestSupervisor_Ready_longWords(t *testing.T) {
	heard := manager(t)
	if err := new(machine.Supervisor).Ready("The cloud " + strings.Repeat("ä", 113_000)); err != nil {
		t.Fatal(err)
	}
	got := heard()
	if !strings.HasPrefix(got, "READY=1\nSTATUS=The cloud ää") || !strings.HasSuffix(got, "ä…") || len(got) > 2100 || !utf8.ValidString(got) {
		t.Errorf("notified %d bytes: %q", len(got), got)
	}
}

// Without a service manager nothing is notified, which is no error.
func TestSupervisor_alone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "")
	s, err := machine.NewSupervisor()
	if err != nil || s.Patience() != 0 {
		t.Fatal(s, err)
	}
	if err := s.Ready("well"); err != nil {
		t.Error(err)
	}
}

// The process takes over a TCP socket that another process has bound, and serves who
// connected before.
func TestSockets(t *testing.T) {
	if os.Getenv("GATEHOUSETEST_TAKES_SOCKETS") != "" {
		answerOne()
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	early, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "sh", "-c", `LISTEN_PID=$$ exec "$0" -test.run='^TestSockets$'`, os.Args[0])
	child.ExtraFiles = []*os.File{file}
	child.Env = append(os.Environ(), "LISTEN_FDS=1", "GATEHOUSETEST_TAKES_SOCKETS=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := io.ReadAll(early); string(got) != "taken over" {
		t.Errorf("heard %q, %v: %s", got, err, out)
	}
}

// answerOne is what the child of TestSockets does.
func answerOne() {
	sockets, err := machine.Sockets()
	if err != nil || len(sockets) != 1 {
		fmt.Println("sockets:", sockets, err)
		return
	}
	conn, err := sockets[0].Accept()
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = conn.Write([]byte("taken over"))
	_ = conn.Close()
	if again, err := machine.Sockets(); err != nil || len(again) != 0 {
		fmt.Println("a second call returns", again, err)
		os.Exit(1)
	}
}

func TestCredentialPath(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", "/run/credentials/gatehouse.service")
	for path, want := range map[string]string{
		"":                      "",
		"/etc/ssl/server.key":   "/etc/ssl/server.key",
		"credential:server.key": "/run/credentials/gatehouse.service/credentials_server.key",
	} {
		if got, err := machine.CredentialPath(path); got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", path, got, err, want)
		}
	}
	if got, err := machine.CredentialPath("credential:../../etc/shadow"); err == nil {
		t.Errorf("a name that leads elsewhere is %q", got)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if got, err := machine.CredentialPath("credential:server.key"); err == nil {
		t.Errorf("without systemd: %q", got)
	}
}
