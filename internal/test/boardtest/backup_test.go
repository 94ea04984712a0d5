//go:build board

package boardtest_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"gatehouse/internal/test/await"
)

// A blank board that restores a backup is the same gateway: nobody touches the
// station, and apps trust it as before.
func TestBackup_blankBoard(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		d := b.startDoor(1042)
		d.mustOpen()
		authority := b.authority()
		const file, ours = "/root/gatehouse.backup", "/etc/gatehouse/conf.d/70-ours.toml"
		b.write(ours, "[station]\nbattery_low = 3.2\n")
		b.sh("GATEHOUSE_PASSPHRASE='a passphrase for the test' gatehouse backup " + file)
		kept, err := os.ReadFile(b.file(file))
		b.must(err)

		b.sh("dpkg --purge gatehouse && rm " + file)
		b.install(version)
		b.awaitReady()
		if bytes.Equal(b.authority(), authority) {
			t.Fatal("a blank board has the same authority: this can prove nothing")
		}
		b.write(file, string(kept))
		b.sh("systemctl stop " + socket + " " + service)
		before := b.sh("sha256sum " + database)
		out, err := b.try("GATEHOUSE_PASSPHRASE='another passphrase' gatehouse restore " + file)
		if err == nil || !strings.Contains(out, "passphrase") || b.sh("sha256sum "+database) != before {
			t.Errorf("with the wrong passphrase: %v\n%s", err, out)
		}
		b.sh("GATEHOUSE_PASSPHRASE='a passphrase for the test' gatehouse restore " + file + "; systemctl start " + socket + " " + service)
		b.awaitReady()
		if !bytes.Equal(b.authority(), authority) {
			t.Error("the restored board has another authority")
		}
		await.Until(b, "the station is back by itself", func() bool { return d.station.Status().Connected })
		d.login() // a restore ends the sessions
		d.mustOpen()
		b.awaitJournal(d)
		b.sh("gatehouse journal verify && test -s " + ours)
		for path, want := range map[string]string{database: "600 gatehouse", ours: "644 root"} {
			if got := strings.TrimSpace(b.sh("stat --format='%a %U' " + path)); got != want {
				t.Errorf("%s is %s, want %s", path, got, want)
			}
		}
	})
}
