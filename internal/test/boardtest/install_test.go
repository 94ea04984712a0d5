//go:build board

package boardtest_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"gatehouse/internal/test/await"
)

// What an installer sees after "dpkg --install", and nothing else done.
func TestInstall(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := startBoard(t, suite)
		printed := b.install(version)
		b.awaitReady()
		for _, want := range []string{"The gateway is ready", "[::]:443", "Setup code", "https://" + b.address, "gatehouse account add YOU@EXAMPLE.COM --admin", "gatehouse doctor"} {
			if !strings.Contains(printed, want) {
				t.Errorf("the installation does not print %q:\n%s", want, printed)
			}
		}
		t.Run("units", b.with(checkUnits))
		t.Run("files", b.with(checkFiles))
		t.Run("certificate", b.with(checkCertificate))
		t.Run("plain HTTP", b.with(checkPlainHTTP))
		t.Run("discovery", b.with(checkDiscovery))
		d := b.startDoor(1042)
		d.mustOpen()
		if version := b.sh("gatehouse version"); !strings.Contains(version, "1.0.0") {
			t.Errorf("gatehouse version prints %q", version)
		}
	})
}

// An installation without its port names the program that has it.
func TestInstall_portTaken(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := startBoard(t, suite)
		b.occupy("1883")
		b.write("/usr/local/bin/ss", "#!/bin/sh\necho 'LISTEN 0 1 0.0.0.0:1883 0.0.0.0:* users:((\"perl\",pid=77,fd=3))'\n") // minbase has none
		b.sh("chmod 755 /usr/local/bin/ss")
		out, err := b.try("dpkg --install " + b.putDeb(deb(b.T, version)))
		if err == nil || !strings.Contains(out, "port 1883 is in use by perl (process 77)") {
			t.Errorf("the installation without its port: %v\n%s", err, out)
		}
		b.sh("systemctl stop occupant && dpkg --configure gatehouse")
		b.awaitReady()
	})
}

// occupy has another program listen on a port.
func (b *board) occupy(port string) {
	b.Helper()
	b.sh("systemd-run --quiet --unit=occupant --property=Type=exec perl -MIO::Socket::INET -e '" +
		"my $s = IO::Socket::INET->new(LocalPort => " + port + ", Listen => 1) or die; sleep'")
	await.Until(b, "the port is taken", func() bool {
		_, err := b.try("perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => " + port + ") or exit 1'")
		return err == nil
	})
}

// with is for parts of a test: the board fails the part.
func (b *board) with(part func(b *board)) func(t *testing.T) {
	return func(t *testing.T) {
		whole := b.T
		defer func() { b.T = whole }()
		b.T = t
		part(b)
	}
}

func checkUnits(b *board) {
	for _, unit := range []string{service, socket} {
		if state := b.property(unit, "ActiveState"); state != "active" {
			b.Errorf("%s is %s", unit, state)
		}
	}
	for _, unit := range []string{service, socket, siteService} {
		if state := b.property(unit, "UnitFileState"); state != "enabled" {
			b.Errorf("%s is %s", unit, state)
		}
	}
	if text := b.property(service, "StatusText"); len(strings.Fields(text)) < 2 {
		b.Errorf("the status of the service is %q, which says nothing to people", text)
	}
	if failed := b.sh("systemctl --failed --no-legend --plain"); failed != "" {
		b.Errorf("these units failed: %s", failed)
	}
	units := service + " " + socket + " " + siteService
	if out, err := b.try("systemd-analyze verify --recursive-errors=no --man=no " + units); err != nil || out != "" {
		b.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// The threshold is ten times the exposure that systemd reckons.
	for unit, threshold := range map[string]string{service: "13", siteService: "16"} {
		out, err := b.try("systemd-analyze security --no-pager --offline=true --threshold=" + threshold + " " + unit)
		if err != nil {
			b.Errorf("systemd-analyze security %s: %v\n%s", unit, err, out)
		}
	}
	if user := b.sh("stat --format=%U /proc/" + b.property(service, "MainPID")); user != "gatehouse\n" {
		b.Errorf("the gateway runs as %s", user)
	}
}

func checkFiles(b *board) {
	for path, want := range map[string]string{
		"/usr/bin/gatehouse":                "755 root:root",
		"/etc/gatehouse":                    "755 root:root",
		"/etc/gatehouse/conf.d":             "755 root:root",
		"/etc/gatehouse/credentials":        "700 root:root",
		"/etc/gatehouse/gatehouse.toml":     "644 root:root",
		"/run/gatehouse":                    "755 gatehouse:gatehouse",
		"/var/lib/gatehouse":                "700 gatehouse:gatehouse",
		"/var/lib/gatehouse/gatehouse.db":   "600 gatehouse:gatehouse",
		"/var/lib/gatehouse/token.key":      "600 gatehouse:gatehouse",
		"/var/lib/gatehouse/tls/ca.key":     "600 gatehouse:gatehouse",
		"/var/lib/gatehouse/tls/server.key": "600 gatehouse:gatehouse",
	} {
		out, err := b.try("stat --format='%a %U:%G' " + path)
		if got := strings.TrimSpace(out); err != nil || got != want {
			b.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	shipped, err := os.ReadFile(root + "/configs/gatehouse.toml")
	b.must(err)
	if b.read("/etc/gatehouse/gatehouse.toml") != string(shipped) {
		b.Error("the installed configuration is not configs/gatehouse.toml")
	}
}

// The certificate holds for every name by which people call the board.
func checkCertificate(b *board) {
	authority := b.authority()
	if string(authority) != b.read("/var/lib/gatehouse/tls/ca.crt") {
		b.Error("GET /ca.crt returns another certificate than /var/lib/gatehouse/tls/ca.crt")
	}
	name := strings.TrimSpace(b.sh("hostname"))
	for _, port := range []string{"443", "8883"} {
		for _, called := range []string{b.address, name, name + ".local", "localhost"} {
			cfg := b.trusting(authority)
			cfg.ServerName = called
			conn, err := tls.Dial("tcp", net.JoinHostPort(b.address, port), cfg)
			if err != nil {
				b.Errorf("TLS with %s on port %s: %v", called, port, err)
				continue
			}
			_ = conn.Close()
		}
	}
}

// checkDiscovery: where no other responder runs, the gateway answers for its services, also
// from within its sandbox.
func checkDiscovery(b *board) {
	conn, err := new(net.Dialer).DialContext(b.Context(), "udp4", net.JoinHostPort(b.address, "5353"))
	b.must(err)
	defer func() { _ = conn.Close() }()
	packet, err := (&dnsmessage.Message{Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName("_gatehouse._tcp.local."), Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET},
	}}).Pack()
	b.must(err)
	var reply dnsmessage.Message
	await.Until(b, "the gateway is found", func() bool {
		_ = conn.SetDeadline(time.Now().Add(time.Second)) // then it asks again, and an answer to any question will do
		buffer := make([]byte, 1500)
		_, _ = conn.Write(packet)
		n, err := conn.Read(buffer)
		return err == nil && reply.Unpack(buffer[:n]) == nil && len(reply.Answers) == 1
	})
	want := strings.TrimSpace(b.sh("hostname")) + "._gatehouse._tcp.local."
	if answer, ok := reply.Answers[0].Body.(*dnsmessage.PTRResource); !ok || answer.PTR.String() != want {
		b.Errorf("the answer is %v, want %s", reply.Answers[0].Body, want)
	}
}

// Port 80 leads to port 443 and takes no password.
func checkPlainHTTP(b *board) {
	client := &http.Client{
		Timeout:       await.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, path := range []string{"/", "/v1/openapi.json"} {
		resp, err := client.Get("http://" + b.address + path)
		b.must(err)
		_ = resp.Body.Close()
		if to := resp.Header.Get("Location"); resp.StatusCode/100 != 3 || to != "https://"+b.address+path {
			b.Errorf("GET http://…%s: %s, to %q", path, resp.Status, to)
		}
	}
	got, err := request{
		method: http.MethodPost, url: "http://" + b.address + "/v1/auth/login", body: `{"email":"a@example.test","password":"b"}`,
	}.send(client)
	if err != nil || got.status == http.StatusOK || got.status == http.StatusUnauthorized {
		b.Errorf("a login without encryption is answered %d %s, %v", got.status, got.body, err)
	}
}
