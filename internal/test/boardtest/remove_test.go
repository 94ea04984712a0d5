//go:build board

package boardtest_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"gatehouse/internal/test/await"
)

// Removing keeps the data, installing again goes on with them, and purging takes
// them.
func TestRemove(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		d := b.startDoor(1042)
		d.mustOpen()

		b.sh("dpkg --remove gatehouse")
		b.mustBeGone()
		b.sh("test -s " + database + " && test -s /etc/gatehouse/gatehouse.toml && test ! -e /usr/bin/gatehouse")

		b.install(version)
		b.awaitReady()
		for _, unit := range []string{service, socket, siteService} {
			if state := b.property(unit, "UnitFileState"); state != "enabled" {
				t.Errorf("after it was installed again, %s is %s", unit, state)
			}
		}
		d.mustOpen() // with the access token of before
		b.awaitJournal(d)

		b.sh("dpkg --purge gatehouse")
		b.mustBeGone()
		left := b.sh("find /etc /var/lib /run /usr -iname '*gatehouse*' -not -path '/var/lib/systemd/deb-systemd-helper-*' " +
			"-not -path '/run/systemd/*' -not -path '/run/credentials/*'")
		if left != "" {
			t.Errorf("left after the purge:\n%s", left)
		}
		b.install(version)
		b.awaitReady()
		if accounts := b.sh("gatehouse account list --json"); accounts != "[]\n" {
			t.Errorf("a blank gateway has these accounts: %s", accounts)
		}
	})
}

// mustBeGone sees that nothing of the gateway runs, or will run.
func (b *board) mustBeGone() {
	b.Helper()
	// What only the link says that enabled it, as Debian leaves it behind, is not found.
	units := b.sh("systemctl list-units --all --no-legend --plain 'gatehouse*' | grep --invert-match ' not-found ' || true; " +
		"systemctl list-unit-files --no-legend 'gatehouse*' || true")
	if units != "" {
		b.Errorf("these units are left: %s", units)
	}
	for _, port := range []string{"80", "443", "1883", "8883"} {
		conn, err := new(net.Dialer).DialContext(await.Context(b), "tcp", net.JoinHostPort(b.address, port))
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			b.Errorf("port %s is still open: %v", port, err)
		}
	}
}
