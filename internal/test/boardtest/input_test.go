//go:build board

package boardtest_test

import (
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/test/await"
)

// A port that somebody else has: the log says so in one sentence, with the line of
// the configuration, and the gateway is there as soon as the port is free.
func TestPortInUse(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		d := b.startDoor(1042)
		d.mustOpen()
		b.sh("systemd-run --quiet --unit=occupant --property=Type=exec perl -MIO::Socket::INET -e '" +
			`my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 9000, Listen => 1) or die; sleep` + "'")
		await.Until(b, "the port is taken", func() bool {
			_, err := b.try("perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => 9000) or exit 1'")
			return err == nil
		})
		b.write("/etc/gatehouse/conf.d/70-ours.toml", "# another port\n[http]\nlisten = [\"127.0.0.1:9000\"]\n")
		if out, err := b.try("systemctl restart " + service); err == nil {
			t.Errorf("the service starts without its port: %s", out)
		}
		var said []string
		for line := range strings.Lines(b.logged(service)) {
			if strings.HasPrefix(line, "gatehouse: ") {
				said = append(said, line)
			}
		}
		want := regexp.MustCompile(`^gatehouse: /etc/gatehouse/conf\.d/70-ours\.toml:3: .*127\.0\.0\.1:9000.*in use`)
		if len(said) == 0 || !want.MatchString(said[0]) {
			t.Errorf("the log says of the port: %q", said)
		}
		b.sh("systemctl stop occupant")
		b.awaitReady()
		d.mustOpen()
	})
}

// A gateway that cannot start, while a station waits at its port, is tried again and
// again, but not without a pause; and it starts as soon as it can.
func TestFailingStart_whileSomeoneWaits(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		d := b.startDoor(1042)
		d.mustOpen()
		b.write("/etc/gatehouse/conf.d/70-ours.toml", "[http]\nlistn = []\n")
		_, _ = b.try("systemctl restart " + service) // it fails, as it should
		conn, err := net.Dial("tcp", net.JoinHostPort(b.address, "1883"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		starts := func() int { return strings.Count(b.logged(service), "conf.d/70-ours.toml:2: ") }
		before, began := starts(), time.Now()
		await.Until(b, "three more starts", func() bool { return starts() >= before+3 })
		if took := time.Since(began); took < 3*time.Second { // real time: on a slow machine three pauses last no less
			t.Errorf("three starts within %s", took)
		}
		if state := b.property(socket, "ActiveState"); state != "active" {
			t.Errorf("the ports are %s", state)
		}
		b.sh("rm /etc/gatehouse/conf.d/70-ours.toml")
		b.awaitReady()
		d.mustOpen()
	})
}
