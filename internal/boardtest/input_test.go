//go:build board

package boardtest_test

import (
	"regexp"
	"strings"
	"testing"
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
		b.await("the port is taken", func() bool {
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
