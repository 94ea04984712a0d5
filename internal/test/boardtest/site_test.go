//go:build board

package boardtest_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf16"

	"gatehouse/internal/test/await"
)

const (
	siteFile   = "/boot/firmware/gatehouse-site.toml"
	siteResult = "/boot/firmware/gatehouse-result.txt"
)

// goodSite is a site file as an installer writes it. The station has a secret that
// it was delivered with.
const goodSite = `name = "north-gate"
timezone = "Europe/Berlin"

[[account]]
email = "porter@example.test"
password = "example-password-1"

[[station]]
id = 1042
name = "North entrance"
locks = 2
token = "board-token-of-1042-north"
secret = "BOARDSECRETOF1042NORTH2233"

[[grant]]
account = "porter@example.test"
stations = [1042]
`

// A site file on the boot partition makes the board a working gateway, once, and
// what is wrong in one is said beside it.
func TestFirstBoot(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := newBoard(t, suite)
		boot := b.mountDisk("/boot/firmware", 8)
		b.switchOn()
		b.write(siteFile, "[[account]]\nemail = \"a@example.test\"\npasswrd = \"example-password-2\"\n")
		b.sh("printf '#!/bin/sh\n' >/usr/local/bin/journalctl; chmod +x /usr/local/bin/journalctl") // the log is late
		printed := b.install(version)
		b.sh("rm /usr/local/bin/journalctl")
		for _, want := range []string{"waiting up to 20 s for a network address", siteFile + ", ", "    gatehouse-site.toml:3: ", "systemctl start gatehouse-site"} {
			if !strings.Contains(printed, want) {
				t.Errorf("the installation does not print %q:\n%s", want, printed)
			}
		}
		b.awaitReady()
		t.Run("bad", b.with(checkBadSites))

		b.write(siteFile, goodSite)
		b.sh("sync")
		if !bytes.Contains(b.bytesOf(boot), []byte(password)) {
			t.Fatal("the partition does not hold the password even before: is this the right one?")
		}
		b.sh("systemctl reboot")
		b.awaitBoot(2)
		await.Until(b, "the result is there", func() bool {
			text, err := os.ReadFile(b.file(siteResult))
			return err == nil && strings.HasPrefix(string(text), "Gatehouse: OK") && b.property(siteService, "ActiveState") == "inactive"
		})
		result := b.read(siteResult)
		for _, want := range []string{"north-gate", "1042", email, "https://" + b.address} {
			if !strings.Contains(result, want) {
				t.Errorf("the result does not name %s:\n%s", want, result)
			}
		}
		b.sh("test ! -e " + siteFile + "; sync")
		for _, secret := range []string{password, "BOARDSECRETOF1042NORTH2233"} {
			if bytes.Contains(b.bytesOf(boot), []byte(secret)) {
				t.Errorf("%s is still on the boot partition", secret)
			}
		}
		d := b.unknownDoor()
		d.issued.StationID, d.issued.StationToken, d.issued.MQTT.Password = 1042, "board-token-of-1042-north", "BOARDSECRETOF1042NORTH2233"
		d.trust(b.authority())
		d.login()
		secured := b.trusting(b.authority())
		secured.ServerName = "north-gate.local"
		d.start(secured)
		d.mustOpen()
		if failed := b.sh("systemctl --failed --no-legend --plain"); failed != "" {
			t.Errorf("these units failed: %s", failed)
		}
	})
}

// checkBadSites: each says its line, and changes nothing.
func checkBadSites(b *board) {
	for name, test := range map[string]struct{ text, want string }{
		"syntax":    {"[[account]]\nemail = \"a@example.test\n", "gatehouse-site.toml:2: "},
		"key":       {"[[account]]\nemail = \"a@example.test\"\npasswrd = \"example-password-2\"\n", "gatehouse-site.toml:3: "},
		"duplicate": {"[[station]]\nid = 7\nlocks = 1\n\n[[station]]\nid = 7\nlocks = 1\n", "gatehouse-site.toml:"},
		"weak":      {"[[account]]\nemail = \"a@example.test\"\npassword = \"abc\"\n", "gatehouse-site.toml:3: "},
		"encoding":  {inUTF16(goodSite), "UTF-8"},
		"settings":  {"name = \"x\"\n[http]\ntls_listen = [\"nowhere\"]\n", "gatehouse-site.toml:3: "},
	} {
		b.write(siteFile, test.text)
		if out, err := b.try("systemctl reset-failed; systemctl restart " + siteService); err == nil {
			b.Errorf("%s: the site file is taken: %s", name, out)
		}
		result := b.read(siteResult)
		if !strings.HasPrefix(result, "Gatehouse: FAILED") || !strings.Contains(result, test.want) || !strings.Contains(result, "Nothing was changed") {
			b.Errorf("%s: the result does not say %q:\n%s", name, test.want, result)
		}
		if b.read(siteFile) != test.text {
			b.Errorf("%s: the site file was changed", name)
		}
		if got := b.sh("gatehouse account list --json; gatehouse station list --json; ls /etc/gatehouse/conf.d"); got != "[]\n[]\n" {
			b.Errorf("%s: something was changed: %s", name, got)
		}
	}
}

// inUTF16 is what some editors make of a text.
func inUTF16(text string) string {
	var out []byte
	for _, unit := range append([]uint16{0xfeff}, utf16.Encode([]rune(text))...) {
		out = append(out, byte(unit), byte(unit>>8))
	}
	return string(out)
}

// bytesOf returns every byte of a disk.
func (b *board) bytesOf(d disk) []byte {
	b.Helper()
	data, err := os.ReadFile(d.image)
	b.must(err)
	return data
}
