//go:build board

package boardtest_test

import (
	"crypto/tls"
	"net"
	"testing"
)

// Another program on port 80 takes nothing but the redirection away.
func TestPort80Taken(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := startBoard(t, suite)
		b.sh("systemd-run --quiet --unit=occupant --property=Type=exec perl -MIO::Socket::INET -e '" +
			`my $s = IO::Socket::INET->new(LocalPort => 80, Listen => 1) or die; sleep` + "'")
		b.await("the port is taken", func() bool {
			_, err := b.try("perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => 80) or exit 1'")
			return err == nil
		})
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
			t.Errorf("the redirection is %s: the test tells nothing", state)
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
