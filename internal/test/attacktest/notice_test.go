package attacktest_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
)

// The login prompt printed any file of root's to which the user of the service put a
// link in the place of the setup code. Root copies plain text now, and from that user's
// own file alone.
func TestAttack_notice(t *testing.T) {
	t.Parallel()
	binary := gatewaytest.Binary(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
	const notice, shown = "/run/gatehouse/setup.issue", "/run/gatehouse-notice/gatehouse.issue"
	for _, path := range []string{notice, shown} {
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as systemd makes it
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("/run/shadow", []byte("root:$y$secret-hash"), 0o600); err != nil {
		t.Fatal(err)
	}
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "/run/notify", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ready.Close() }()
	_ = ready.SetReadDeadline(await.Deadline())
	for script, want := range map[string]string{
		"ln -s /run/shadow $1":                   "",
		"ln /run/shadow $1":                      "",
		"mkfifo $1":                              "",
		`printf '\\S{/run/shadow} \033[2J' > $1`: "S{/run/shadow} [2J\n",
		"head -c 10000000 /dev/zero > $1":        "\n",
		"echo 'Setup code   K7QF-3MRD' > $1":     "Setup code   K7QF-3MRD\n",
	} {
		if out, err := exec.CommandContext(t.Context(), "sh", "-euc", "rm -f $1; "+script, "sh", notice).CombinedOutput(); err != nil { //nolint:gosec // of this test
			t.Fatalf("%s: %v %s", script, err, out)
		}
		var out strings.Builder
		cmd := exec.CommandContext(t.Context(), binary, "notice") //nolint:gosec // our own binary
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "NOTIFY_SOCKET="+ready.LocalAddr().String()), &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		status := make([]byte, 4096)
		n, err := ready.Read(status)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(shown)
		if string(text) != want {
			t.Errorf("%s: the console shows %q, want %q", script, text, want)
		}
		if err := os.Remove(notice); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it ends with the notice
		if text, err := os.ReadFile(shown); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: at the end the console shows %q, %v", script, text, err)
		}
		if strings.Contains(out.String()+string(status[:n]), "secret") {
			t.Errorf("%s: %s %s", script, out.String(), status[:n])
		}
	}
}
