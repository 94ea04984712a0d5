package firstboot_test

import (
	"strings"
	"testing"

	"gatehouse/internal/install/firstboot"
)

// Generated passwords that may not have been read yet are kept when another site
// file comes, whatever becomes of it.
func TestRun_unreadResult(t *testing.T) {
	b := withSite(t)
	if _, err := b.run(); err != nil {
		t.Fatal(err)
	}
	first := b.read("boot/gatehouse-result.txt")
	b.write("boot/gatehouse-site.toml", "[htp]\n")
	if _, err := b.run(); err == nil || b.read("boot/gatehouse-result.1.txt") != first || !strings.HasPrefix(b.read("boot/gatehouse-result.txt"), "Gatehouse: FAILED") {
		t.Errorf("%v; the results are %q", err, b.files())
	}
	b.write("boot/gatehouse-site.toml", "[[station]]\nid = 7\n")
	if _, err := b.run(); err != nil || b.exists("boot/gatehouse-result.2.txt") {
		t.Errorf("%v, or a result without passwords was kept", err)
	}
	second := b.read("boot/gatehouse-result.txt")
	b.write("boot/gatehouse-site.toml", "")
	out, err := b.run()
	if err != nil || b.read("boot/gatehouse-result.1.txt") != first || b.read("boot/gatehouse-result.2.txt") != second || !strings.Contains(second, "MQTT password") {
		t.Errorf("%v; the results are %q", err, b.files())
	}
	if len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], b.path("boot/gatehouse-result.2.txt")) {
		t.Errorf("warned %q", out.Warnings)
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
