package attacktest_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
)

// browser is a program that people surf with, and that trusts an authority.
type browser struct {
	name  string
	store string // where it keeps whom it trusts, below its home
	args  func(home, url string) []string
}

func browsers() []browser {
	return []browser{
		{"chromium", ".pki/nssdb", func(home, url string) []string {
			return []string{
				"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
				"--disable-component-update", "--disable-sync", "--no-first-run", "--user-data-dir=" + filepath.Join(home, "data"), "--dump-dom", url,
			}
		}},
		{"firefox-esr", "profile", func(home, url string) []string {
			return []string{"--headless", "--no-remote", "--profile", filepath.Join(home, "profile"), "--screenshot", filepath.Join(home, "page.png"), url}
		}},
	}
}

// page is a web server with a certificate. It counts who got the page, and who refused
// the certificate by an alert.
type page struct {
	url           string
	read, refused atomic.Int64
	judged        chan struct{} // capacity 1: either has happened
}

// Write takes a line of the server's log.
func (p *page) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("remote error: tls:")) {
		p.judge(&p.refused)
	}
	return len(line), nil
}

func (p *page) judge(how *atomic.Int64) {
	how.Add(1)
	select {
	case p.judged <- struct{}{}:
	default:
	}
}

func servePage(t *testing.T, name string, cert *tls.Certificate) *page {
	t.Helper()
	l, err := net.Listen("tcp", ":0") //nolint:gosec,noctx // in a namespace of its own
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &page{url: "https://" + net.JoinHostPort(name, port) + "/", judged: make(chan struct{}, 1)}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(p, nil), slog.LevelError),
		Handler:   http.HandlerFunc(func(http.ResponseWriter, *http.Request) { p.judge(&p.read) }),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}},
	}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.ServeTLS(l, "", "") }()
	return p
}

// The same with the browsers of Debian, which keep their own rules: they read pages of
// the gateway's, and none of another site's.
func TestAttack_authorityKey_browsers(t *testing.T) {
	if !gatewaytest.Torture() {
		return
	}
	if !isolated(t, "certutil", "chromium", "firefox-esr") {
		return
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost gatehouse gatehouse.local example.com\n"), 0o644); err != nil { //nolint:gosec // as the system's
		t.Fatal(err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	command(t, "ip", "addr", "add", "8.8.8.8/32", "dev", "lo")
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_NAME=gatehouse", "GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0"}})
	s := steal(t, p.Data)
	own, err := tls.LoadX509KeyPair(filepath.Join(p.Data, "tls", "server.crt"), filepath.Join(p.Data, "tls", "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range browsers() {
		home := t.TempDir()
		store := filepath.Join(home, b.store)
		if err := os.MkdirAll(store, 0o700); err != nil {
			t.Fatal(err)
		}
		command(t, "certutil", "-d", "sql:"+store, "-N", "--empty-password")
		command(t, "certutil", "-d", "sql:"+store, "-A", "-t", "C,,", "-n", "gatehouse", "-i", s.path)
		for _, name := range []string{"gatehouse.local", "gatehouse", "127.0.0.1"} {
			if site := b.visit(t, home, name, &own); site.read.Load() == 0 {
				t.Errorf("%s refuses the gateway as %s", b.name, name)
			}
		}
		for _, name := range []string{"example.com", "8.8.8.8"} {
			if site := b.visit(t, home, name, s.sign(name, false)); site.read.Load() > 0 || site.refused.Load() == 0 {
				t.Errorf("%s accepts %s: %d pages, %d refusals", b.name, name, site.read.Load(), site.refused.Load())
			}
		}
	}
}

// visit has the browser load a page of a site until it has it or refuses the certificate.
func (b browser) visit(t *testing.T, home, name string, cert *tls.Certificate) *page {
	t.Helper()
	site := servePage(t, name, cert)
	end := b.load(t, home, site.url)
	defer end()
	await.Receive(t, b.name+" has read the page of "+name+", or refused its certificate", site.judged)
	t.Logf("%s, %s: %d pages, %d refusals", b.name, name, site.read.Load(), site.refused.Load())
	return site
}

// load has the browser load a page until end is called.
func (b browser) load(t testing.TB, home, url string) (end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), b.name, b.args(home, url)...) //nolint:gosec // of the test's own choice
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its children
		_ = cmd.Wait()
	}
}

// command runs a program to its end.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}
