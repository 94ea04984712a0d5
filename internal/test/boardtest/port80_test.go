//go:build board

package boardtest_test

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
)

// Another program on port 80 takes nothing but the redirection away.
func TestPort80Taken(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := startBoard(t, suite)
		b.occupy("80")
		b.install(version)
		for _, port := range []string{"443", "8883"} {
			cfg := b.trusting([]byte(b.read("/var/lib/gatehouse/tls/ca.crt")))
			conn, err := tls.Dial("tcp", net.JoinHostPort(b.address, port), cfg)
			if err != nil {
				t.Errorf("port %s: %v", port, err)
				continue
			}
			_ = conn.Close()
		}
		if state := b.property("gatehouse-redirect.socket", "ActiveState"); state != "failed" {
			t.Errorf("the redirection is %s: the test tests nothing", state)
		}
		if out, _ := b.try("gatehouse doctor"); !strings.Contains(out, "Another program has port 80") {
			t.Errorf("the doctor does not report that port 80 is taken:\n%s", out)
		}
		b.sh("systemctl stop occupant")
		b.sh("systemctl stop gatehouse.socket gatehouse.service && systemctl start gatehouse.socket gatehouse.service")
		b.awaitReady() // over port 80
		d := b.startDoor(1042)
		d.mustOpen()
		b.sh("systemctl stop gatehouse.socket gatehouse.service")
		if state := b.property("gatehouse-redirect.socket", "ActiveState"); state != "inactive" {
			t.Errorf("with the other ports closed, the redirection is %s", state)
		}
	})
}

// A certificate that root alone may read, and a group of administrators: both survive a
// reload and a restart.
func TestCredentialsAndGroup(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		b.ownCertificate("gate.example.test")
		b.sh("cp /etc/gatehouse/own.crt /etc/gatehouse/own.key /etc/gatehouse/credentials/ && chmod 600 /etc/gatehouse/credentials/*")
		b.sh("useradd --groups gatehouse porter")
		b.write("/etc/gatehouse/conf.d/70-ours.toml",
			"[tls]\ncertificate = \"credential:own.crt\"\nkey = \"credential:own.key\"\n[admin]\ngroup = \"gatehouse\"\n")
		b.sh("systemctl restart " + service)
		b.awaitReady()
		b.awaitCertificate("443", "gate.example.test")
		b.reload()
		b.awaitCertificate("443", "gate.example.test")
		b.sh("setpriv --reuid=porter --regid=porter --init-groups gatehouse station list")
	})
}
