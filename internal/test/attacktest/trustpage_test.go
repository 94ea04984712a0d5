package attacktest_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
)

// The browsers of Debian load the image of /trust over HTTPS once they trust what the
// page offers, and not before: the page is not green too early.
func TestAttack_trustPage_browsers(t *testing.T) {
	if !gatewaytest.Torture() {
		return
	}
	need.Program(t, "certutil", "chromium", "firefox-esr")
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0", "GATEHOUSE_LOG_LEVEL=debug"}})
	offered := filepath.Join(t.TempDir(), "gatehouse-ca.cer")
	if err := os.WriteFile(offered, p.Do(http.MethodGet, "/ca.der", "", nil).Body, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, b := range browsers() {
		home := t.TempDir()
		store := filepath.Join(home, b.store)
		if err := os.MkdirAll(store, 0o700); err != nil {
			t.Fatal(err)
		}
		command(t, "certutil", "-d", "sql:"+store, "-N", "--empty-password")
		images := served(p, "/trust/check.svg")
		refused := strings.Count(p.Log(), "remote error: tls:")
		b.read(p, home, func() bool { return strings.Count(p.Log(), "remote error: tls:") > refused })
		if served(p, "/trust/check.svg") != images {
			t.Errorf("%s loads the image without trusting the gateway", b.name)
		}
		command(t, "certutil", "-d", "sql:"+store, "-A", "-t", "C,,", "-n", "gatehouse", "-i", offered)
		b.read(p, home, func() bool { return served(p, "/trust/check.svg") != images })
	}
}

// served returns how often a route was answered, as the metrics say it.
func served(p *gatewaytest.Program, route string) (count string) {
	for line := range strings.Lines(string(p.Do(http.MethodGet, "/metrics", "", nil).Body)) {
		if n, ok := strings.CutPrefix(line, `gatehouse_http_requests_total{route="`+route+`",status="200"} `); ok {
			count = n
		}
	}
	return count
}

// read has the browser read /trust over plain HTTP until done.
func (b browser) read(p *gatewaytest.Program, home string, done func() bool) {
	p.T.Helper()
	cmd := exec.CommandContext(await.Context(p.T), b.name, b.args(home, p.HTTP+"/trust")...) //nolint:gosec // of the test's own choice
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		p.T.Fatal(err)
	}
	p.Await(b.name+" has read the page", done)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its children
	_ = cmd.Wait()
}
