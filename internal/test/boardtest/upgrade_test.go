//go:build board

package boardtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const database = "/var/lib/gatehouse/gatehouse.db"

// An upgrade keeps everything, and the way back is the one that it names.
func TestUpgrade(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		d := b.startDoor(1042)
		d.mustOpen()
		const ours = "\n# changed by hand\n"
		b.write("/etc/gatehouse/gatehouse.toml", b.read("/etc/gatehouse/gatehouse.toml")+ours)
		b.write("/etc/gatehouse/conf.d/70-ours.toml", "[station]\nbattery_low = 3.2\n")

		b.install(nextVersion)
		b.awaitReady()
		d.mustOpen() // with the access token of before
		if text := b.read("/etc/gatehouse/gatehouse.toml"); !strings.HasSuffix(text, ours) {
			t.Error("the upgrade has replaced a configuration that was changed by hand")
		}
		b.awaitJournal(d)
		b.sh("gatehouse journal verify")
		former := strings.TrimSpace(b.sh("ls " + database + ".schema*"))
		if !regexp.MustCompile(`^` + regexp.QuoteMeta(database) + `\.schema\d+$`).MatchString(former) {
			t.Fatalf("the copies of before the upgrade are %q", former)
		}
		if got := b.sh("stat --format='%a %U' " + former); got != "600 gatehouse\n" {
			t.Errorf("the copy of before the upgrade is %s", got)
		}
		b.sh("gatehouse journal verify " + former)
		t.Run("downgrade", b.with(func(b *board) { checkDowngrade(b, d, former) }))
	})
}

// checkDowngrade: the version of before leaves a newer database alone, and says how
// to go back. Doing so works.
func checkDowngrade(b *board, d *door, former string) {
	b.sh("systemctl stop " + socket + " " + service)
	checksums := "cd /var/lib/gatehouse && test ! -s gatehouse.db-wal && sha256sum gatehouse.db gatehouse.db.schema*"
	before := b.sh(checksums)
	out, _ := b.try("dpkg --install " + b.putDeb(deb(b.T, version)))
	said := out + b.logged(service)
	if after := b.sh(checksums); after != before {
		b.Errorf("the downgrade has changed the database:\n%s%s", before, after)
	}
	if state := b.property(service, "ActiveState"); state == "active" {
		b.Fatal("the version of before runs on a newer database")
	}
	advice := "gatehouse restore " + former
	if !strings.Contains(said, advice) || !strings.Contains(said, "newer version") {
		b.Fatalf("nothing says what is wrong and how to go back; %q is missing:\n%s", advice, out)
	}
	b.sh("systemctl stop " + socket + " " + service)
	b.sh(advice + "; systemctl start " + socket + " " + service)
	b.awaitReady()
	d.login()
	d.mustOpen()
	b.sh("gatehouse journal verify")
	if failed := b.sh("systemctl --failed --no-legend --plain; dpkg --audit"); failed != "" {
		b.Errorf("left in a bad state: %s", failed)
	}
}

// An upgrade to a version that never becomes ready fails, says so and how to go
// back, and doing that works.
func TestUpgrade_neverReady(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		d := b.startDoor(1042)
		d.mustOpen()
		b.dropIn("impatient", "[Service]\nTimeoutStartSec=3\n")
		out, err := b.try("dpkg --install " + b.putDeb(brokenDeb(t)))
		if err == nil {
			t.Errorf("dpkg is content with a version that never becomes ready:\n%s", out)
		}
		for _, want := range []string{"does not run", database, "to go back to version " + version} {
			if !strings.Contains(out, want) {
				t.Errorf("dpkg does not say %q:\n%s", want, out)
			}
		}
		if copies := b.sh("ls " + database + ".schema* 2>/dev/null || true"); copies != "" {
			t.Errorf("a version that never became ready has migrated the database: %s", copies)
		}
		b.sh("rm /etc/systemd/system/" + service + ".d/impatient.conf && systemctl daemon-reload")
		b.wayBack(out)
		b.awaitReady()
		d.mustOpen() // with the access token of before
		b.awaitJournal(d)
		b.sh("gatehouse journal verify")
		if audit := b.sh("dpkg --audit"); audit != "" {
			t.Errorf("dpkg: %s", audit)
		}
	})
}

// wayBack types the commands that the message shows for going back. Where it offers
// apt or dpkg, it takes dpkg: there is no archive here.
func (b *board) wayBack(message string) {
	b.Helper()
	file := b.putDeb(deb(b.T, version))
	_, steps, _ := strings.Cut(message, "to go back to version")
	steps, _, _ = strings.Cut(steps, "to stay with version")
	var typed []string
	for line := range strings.Lines(steps) {
		step, shown := strings.CutPrefix(line, "    ")
		if !shown {
			continue
		}
		if _, offered, both := strings.Cut(step, "(or: dpkg -i "); both {
			if name := strings.TrimSuffix(strings.TrimSpace(offered), ")"); name != filepath.Base(file) {
				b.Errorf("the message names the package file %s, and it is called %s", name, filepath.Base(file))
			}
			step = "dpkg -i " + file
		}
		b.sh(step)
		typed = append(typed, step)
	}
	if len(typed) == 0 {
		b.Fatalf("the message shows no commands:\n%s", message)
	}
}

// brokenDeb makes a package of a newer version whose program starts but is never
// ready.
func brokenDeb(t *testing.T) string {
	t.Helper()
	good := deb(t, version)
	return packages.get(t, "broken", func() (string, error) {
		dir, file := filepath.Join(scratch(), "broken"), filepath.Join(scratch(), "gatehouse_2.0.0_"+architecture()+".deb")
		if err := command("dpkg-deb", "--raw-extract", good, dir); err != nil {
			return "", err
		}
		control := filepath.Join(dir, "DEBIAN", "control")
		text, err := os.ReadFile(control)
		if err != nil {
			return "", err
		}
		text = []byte(strings.Replace(string(text), "Version: "+version, "Version: 2.0.0", 1))
		if err := os.WriteFile(control, text, 0o644); err != nil {
			return "", err
		}
		program := filepath.Join(dir, "usr", "bin", "gatehouse")
		if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep infinity\n"), 0o755); err != nil {
			return "", err
		}
		return file, command("dpkg-deb", "--root-owner-group", "-Zgzip", "--build", dir, file)
	})
}
