package firstboot_test

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"gatehouse/internal/install/firstboot"
	"gatehouse/systemd"
)

// powered runs once, and reports whether the power was cut on the way. Then the
// machine starts again.
func (b *board) powered() (whole bool) {
	b.t.Helper()
	defer func() {
		if v := recover(); v != nil {
			if _, is := v.(cut); !is {
				panic(v)
			}
			b.start()
		}
	}()
	if _, err := b.run(); err != nil {
		b.t.Fatalf("a run after power cuts: %v", err)
	}
	return true
}

// The power may be cut before, within and after every step: the next run ends where
// one without a cut would have.
func TestRun_powerCut(t *testing.T) {
	for at := 1; ; at++ {
		b := withSite(t)
		b.fuse.left = at
		whole := b.powered()
		b.fuse.left = 0
		if !b.powered() {
			t.Fatal("the fuse was not replaced")
		}
		b.checkDone()
		if t.Failed() {
			t.Fatalf("after a cut at step %d", at)
		}
		if whole {
			if at < 35 {
				t.Errorf("only %d steps were tried", at)
			}
			return
		}
	}
}

// Likewise where the power is cut again and again.
func TestRun_powerCuts(t *testing.T) {
	for seed := range 25 {
		b := withSite(t)
		for try := 0; ; try++ {
			b.fuse.left = 1 + (seed*31+try*17)%(20+10*try)
			if b.powered() {
				break
			}
		}
		b.fuse.left = 0
		b.powered()
		b.checkDone()
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

// Settings with which the gateway does not come up are taken back, also when the power
// is cut meanwhile; and the site is not applied.
func TestRun_settingsTakenBack(t *testing.T) {
	const bad = "name = \"bad-gate\"\n[[account]]\nemail = \"porter@example.test\"\npassword = \"given-porter-password\"\n[[account]]\nemail = \"owner@example.test\"\n"
	const old = "# by hand\nname = \"old-gate\"\n"
	for _, before := range []string{"", old} {
		for at, whole := 1, false; !whole; at++ {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard(t)
				if before != "" {
					b.write("etc/conf.d/50-site.toml", before)
					b.start()
				}
				b.write("boot/gatehouse-site.toml", bad)
				whole = b.refused(at)
				b.refused(0)
				if got := b.read("etc/conf.d/50-site.toml"); got != before || b.exists("etc/first-boot.state") || b.exists("etc/conf.d/50-site.toml") != (before != "") {
					t.Errorf("the settings read %q, want %q", got, before)
				}
				result := b.read("boot/gatehouse-result.txt")
				if !strings.HasPrefix(result, "Gatehouse: FAILED\n") || !strings.Contains(result, "Nothing was changed.") ||
					!strings.Contains(result, "gatehouse-site.toml: the gateway does not come up with these settings, so they were taken back: the gateway does not answer") {
					t.Errorf("the result reads\n%s", result)
				}
				if !b.up || len(b.accounts) > 0 || b.read("boot/gatehouse-site.toml") != bad {
					t.Errorf("up: %t, %d accounts", b.up, len(b.accounts))
				}
			})
			if t.Failed() {
				t.Fatalf("after a cut at step %d", at)
			}
		}
	}
}

// What the gateway complains of is reported without the place in its settings, which are
// gone by then.
func TestRun_complaint(t *testing.T) {
	for complaint, want := range map[string]string{
		"SETTINGS:9: http cannot listen on [::]:443: change http.tls_listen": "SITE: REFUSED: http cannot listen on [::]:443: change http.tls_listen",
		"the disk is full: make room":                                        "SITE: REFUSED: the disk is full: make room",
		"":                                                                   "SITE: REFUSED: the gateway does not answer",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBoard(t)
			b.write("boot/gatehouse-site.toml", "name = \"bad-gate\"\n")
			names := strings.NewReplacer("SETTINGS", b.path("etc/conf.d/50-site.toml"), "SITE", b.path("boot/gatehouse-site.toml"),
				"REFUSED", "the gateway does not come up with these settings, so they were taken back")
			cfg := b.firstBoot()
			cfg.Complaint = func(context.Context) string { return names.Replace(complaint) }
			if _, err := firstboot.Run(t.Context(), cfg); err == nil || err.Error() != names.Replace(want) {
				t.Errorf("got  %v\nwant %s", err, names.Replace(want))
			}
		})
	}
}

// What was there before is not lost when settings are on trial twice.
func TestRun_onTrialTwice(t *testing.T) {
	for at, whole := 1, false; !whole; at++ {
		synctest.Test(t, func(t *testing.T) {
			b := newBoard(t)
			b.write("etc/conf.d/50-site.toml", "name = \"old-gate\"\n")
			b.start()
			b.write("boot/gatehouse-site.toml", "name = \"flaky-gate\"\n")
			b.fuse.left = at
			if whole = b.powered(); whole {
				return
			}
			b.fuse.left = 0
			onTrial := strings.Contains(b.read("etc/first-boot.state"), "onTrial")
			_, err := b.run()
			if got := b.read("etc/conf.d/50-site.toml"); onTrial && err != nil && got != "name = \"old-gate\"\n" {
				t.Errorf("after a cut at step %d and %v the settings read %q", at, err, got)
			}
		})
	}
}

// refused is a run whose settings are bad; whole is whether the power was not cut.
func (b *board) refused(at int) (whole bool) {
	defer func() {
		if v := recover(); v != nil {
			if _, is := v.(cut); !is {
				panic(v)
			}
			b.start()
		}
	}()
	b.fuse.left = at
	if _, err := b.run(); err == nil {
		b.t.Error("the settings were taken")
	}
	return true
}

// The unit starts for a site file whose wiping was interrupted too.
func TestWipingName(t *testing.T) {
	unit, err := systemd.Files.ReadFile("gatehouse-site.service")
	if err != nil {
		t.Fatal(err)
	}
	conditions := regexp.MustCompile(`(?m)^ConditionPathExistsGlob=\|(.*)$`).FindAllSubmatch(unit, -1)
	for _, c := range conditions {
		folder, pattern := filepath.Split(string(c[1]))
		if is, err := filepath.Match(pattern, firstboot.WipingName); err != nil || !is {
			t.Errorf("in %s it looks for %s: %v", folder, pattern, err)
		}
	}
	if len(conditions) != 4 {
		t.Errorf("there are %d conditions", len(conditions))
	}
}
