package firstboot_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/install/firstboot"
	"gatehouse/internal/setup/tomlfile"
)

// A file that was changed while the wiping was left is a new site file; one that was
// not is only wiped, and not applied again.
func TestRun_wipingIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(text string) string
		applied bool
	}{
		"the same": {func(text string) string { return text }, false},
		"another password": {func(text string) string {
			return strings.Replace(text, "given-porter-password", "other-porter-password", 1)
		}, true},
		"another name":   {func(text string) string { return strings.Replace(text, "entrance", "passage ", 1) }, true},
		"another length": {func(text string) string { return text + "\n" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := withSite(t)
			b.readOnly("boot/gatehouse-site.toml")
			b.write("boot/gatehouse-site.toml", c.change(b.read("boot/gatehouse-site.toml")))
			b.write("boot/guest.password", guestPassword)
			b.accounts["porter@example.test"] = "changed-by-hand-meanwhile"
			out, err := b.run()
			if err != nil || out.OnlyWiped == c.applied || c.applied && out.Result == "" {
				t.Fatalf("got %+v, %v", out, err)
			}
			if applied := b.accounts["porter@example.test"] != "changed-by-hand-meanwhile"; applied != c.applied {
				t.Errorf("applied: %t, want %t", applied, c.applied)
			}
			b.accounts["porter@example.test"] = "given-porter-password"
			for name, text := range b.files() {
				for _, secret := range given() {
					if strings.Contains(text, secret) {
						t.Errorf("%s holds %s:\n%s", name, secret, text)
					}
				}
			}
			if b.exists("boot/gatehouse-site.toml") || b.exists("etc/first-boot.state") {
				t.Error("the site file or the state is still there")
			}
		})
	}
}

// readOnly runs once while nothing below that path can be written, and returns the
// error.
func (b *board) readOnly(names ...string) string {
	b.t.Helper()
	cfg := b.firstBoot()
	cfg.OnTouch(b.disk(func(path string) error {
		for _, name := range names {
			if strings.HasPrefix(path, b.path(name)) {
				return unix.EROFS
			}
		}
		return nil
	}))
	_, err := firstboot.Run(b.t.Context(), cfg)
	if err == nil {
		b.t.Fatal("all was done on a partition that is read-only")
	}
	return err.Error()
}

// A boot partition that cannot be written: everything is set up, the result is
// beside the configuration, and the error names what is left to do.
func TestRun_readOnlyPartition(t *testing.T) {
	b := withSite(t)
	told := b.readOnly("boot/")
	want := b.path("boot/gatehouse-site.toml") + ": everything was set up, but the passwords in this file could not be wiped (read-only file system): " +
		"make the card writable (mount -o remount,rw " + b.path("boot") + ") and run \"gatehouse first-boot\", or delete the file by hand"
	if told != want {
		t.Errorf("told\n%s\nwant\n%s", told, want)
	}
	result := b.read("etc/gatehouse-result.txt")
	if !strings.HasPrefix(result, "Gatehouse: OK\n") || !strings.Contains(result, "gatehouse-site.toml is still there") ||
		!strings.Contains(result, b.accounts["owner@example.test"].Reveal()) {
		t.Errorf("the result reads\n%s", result)
	}
	if info, err := os.Stat(b.path("etc/gatehouse-result.txt")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the result has %v, %v", info.Mode(), err)
	}
	boots := b.boots
	if again := b.readOnly("boot/"); again != want || b.boots != boots {
		t.Errorf("a second time it told\n%s", again)
	}
	if _, err := b.run(); err != nil || b.exists("boot/gatehouse-site.toml") || b.exists("boot/guest.password") || b.exists("etc/first-boot.state") {
		t.Errorf("when it can be written again: %v", err)
	}
	for _, secret := range given() {
		if strings.Contains(b.read("boot/gatehouse-site.done.toml"), secret) {
			t.Errorf("%s is left", secret)
		}
	}
}

// A disk that fails at any one place is an error that says what to do, leaves the
// gateway running and the site file for the next try.
func TestRun_diskFails(t *testing.T) {
	for _, name := range []string{
		"etc/conf.d/50-site.toml", "etc/first-boot.state",
	} {
		t.Run(name, func(t *testing.T) {
			b := withSite(t)
			cfg := b.firstBoot()
			cfg.OnTouch(b.disk(func(path string) error {
				if path == b.path(name) {
					return unix.ENOSPC
				}
				return nil
			}))
			_, err := firstboot.Run(t.Context(), cfg)
			refusal, ok := errors.AsType[*tomlfile.Error](err)
			if !ok || !strings.Contains(err.Error(), b.path(name)) || !strings.Contains(err.Error(), "no space left on device") || len(refusal.Problems) != 1 {
				t.Errorf("got %v", err)
			}
			if !b.up || !b.exists("boot/gatehouse-site.toml") || !strings.HasPrefix(b.read("boot/gatehouse-result.txt"), "Gatehouse: FAILED") {
				t.Error("the gateway is down, the site file is gone or there is no result")
			}
			if _, err := b.run(); err != nil {
				t.Fatal(err)
			}
			b.checkDone()
		})
	}
}

// What is removed was overwritten in place before: another name of the same file shows it.
func TestRun_overwritten(t *testing.T) {
	b := withSite(t)
	for _, name := range []string{"gatehouse-site.toml", "guest.password"} {
		if err := os.Link(b.path("boot/"+name), b.path("link-of-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.run(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gatehouse-site.toml", "guest.password"} {
		if text := b.read("link-of-" + name); text == "" || strings.TrimSpace(text) != "" {
			t.Errorf("%s reads %q", name, text)
		}
	}
}
