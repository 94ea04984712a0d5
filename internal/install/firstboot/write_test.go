package firstboot_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"gatehouse/internal/install/firstboot"
)

// Generated passwords that may not have been read yet stay in the result when another
// site file comes, whatever becomes of it.
func TestRun_unreadResult(t *testing.T) {
	b := withSite(t)
	if _, err := b.run(); err != nil {
		t.Fatal(err)
	}
	owner := "    password       " + b.accounts["owner@example.test"].Reveal() + "\n"
	for _, step := range []struct {
		site, verdict string
		taken         bool
	}{
		{"[htp]\n", "Gatehouse: FAILED", false},
		{"[[station]]\nid = 7\n", "Gatehouse: OK", true},
		{"", "Gatehouse: OK", true},
	} {
		b.write("boot/gatehouse-site.toml", step.site)
		_, err := b.run()
		result := b.read("boot/gatehouse-result.txt")
		if (err == nil) != step.taken || !strings.HasPrefix(result, step.verdict) || strings.Count(result, owner) != 1 {
			t.Errorf("%v; the result reads\n%s", err, result)
		}
	}
	if result := b.read("boot/gatehouse-result.txt"); strings.Count(result, b.stations[7].Secret.Reveal()) != 1 {
		t.Errorf("the result reads\n%s", result)
	}
}

// The gateway reads the folder of the settings as a user of its own; gatehouse-site.service
// has this umask.
func TestRun_umask(t *testing.T) {
	b := withSite(t)
	old := syscall.Umask(0o077)
	_, err := b.run()
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	if folder, err := os.Stat(b.path("etc/conf.d")); err != nil || folder.Mode().Perm() != 0o755 {
		t.Errorf("the folder of the settings: %v, %v", folder.Mode(), err)
	}
}

// A machine that is about to be called like the gateway is found under that name.
func TestRun_takesName(t *testing.T) {
	b := withSite(t)
	system := "debian"
	b.network = &system
	cfg := b.firstBoot()
	cfg.TakesName = true
	out, err := firstboot.Run(t.Context(), cfg)
	if result := b.read("boot/gatehouse-result.txt"); err != nil || len(out.Warnings) > 0 || !strings.Contains(result, "https://north-gate.local\n") || strings.Contains(result, "debian") {
		t.Errorf("%v, %q; the result reads\n%s", err, out.Warnings, result)
	}
}
