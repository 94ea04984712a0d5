package firstboot_test

import (
	"os"
	"strings"
	"testing"

	"gatehouse/internal/install/firstboot"
)

// A card that was read-only and can be written again: the result goes to it, over that
// of a failed attempt before, and passwords are not said to be left anywhere.
func TestRun_resultMoves(t *testing.T) {
	for at, whole := 0, false; !whole; at++ {
		b := withSite(t)
		b.write("boot/gatehouse-result.txt", "Gatehouse: FAILED\n")
		b.readOnly("boot/")
		b.readOnly("boot/")
		owner := b.accounts["owner@example.test"].Reveal()
		b.fuse.left = at // in the first turn, never
		b.powered()
		whole = at > 0 && b.fuse.left > 0
		b.fuse.left = 0
		if at > 0 {
			b.powered()
		}
		result := b.read("boot/gatehouse-result.txt")
		if !strings.HasPrefix(result, "Gatehouse: OK") || !strings.Contains(result, owner) || strings.Contains(result, "PASSWORDS ARE LEFT") {
			t.Errorf("the result reads\n%s", result)
		}
		b.checkDone()
		if t.Failed() {
			t.Fatalf("after a cut at step %d", at)
		}
	}
}

// The path that is reported is that of the valid result.
func TestRun_resultPath(t *testing.T) {
	b := withSite(t)
	b.write("boot/gatehouse-result.txt", "Gatehouse: FAILED\n")
	b.readOnly("boot/")
	cfg := b.firstBoot()
	if out, err := firstboot.Run(t.Context(), cfg); err != nil || !out.OnlyWiped || out.Result != b.path("boot/gatehouse-result.txt") || b.exists("etc/gatehouse-result.txt") {
		t.Errorf("got %+v, %v", out, err)
	}

	// On a card of which only the result cannot be written, it stays where it is.
	b = withSite(t)
	b.write("boot/gatehouse-result.txt", "Gatehouse: FAILED\n")
	b.readOnly("boot/")
	b.write("boot/gatehouse-result.txt.new/in-the-way", "")
	out, err := b.run()
	if result := b.read("etc/gatehouse-result.txt"); err != nil || out.Result != b.path("etc/gatehouse-result.txt") || strings.Contains(result, "PASSWORDS ARE LEFT") {
		t.Errorf("got %+v, %v\n%s", out, err, result)
	}

	// One that was removed is not reported.
	b = withSite(t)
	b.write("boot/gatehouse-result.txt", "Gatehouse: FAILED\n")
	b.readOnly("boot/")
	if err := os.Remove(b.path("etc/gatehouse-result.txt")); err != nil {
		t.Fatal(err)
	}
	if out, err := b.run(); err != nil || out.Result != "" {
		t.Errorf("got %+v, %v", out, err)
	}
}

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

// Nobody finds the gateway under a name that its machine does not have.
func TestRun_networkName(t *testing.T) {
	for network, want := range map[string]string{
		"debian":     "This machine is called debian on the network: \"hostnamectl hostname north-gate\" makes it north-gate.local.",
		"":           "This machine has no name on the network: \"hostnamectl hostname north-gate\" makes it north-gate.local.",
		"north-gate": "",
	} {
		b := withSite(t)
		b.network = &network
		out, err := b.run()
		result := b.read("boot/gatehouse-result.txt")
		if err != nil || strings.Join(out.Warnings, "") != want || !strings.Contains(result, want) {
			t.Errorf("%v, %q; the result reads\n%s", err, out.Warnings, result)
		}
		where, _, _ := strings.Cut(result, "The fingerprint")
		if has := strings.Contains(where, ".local\n"); has != (network != "") || network != "" && !strings.Contains(where, "https://"+network+".local\n") {
			t.Errorf("the result reads\n%s", result)
		}
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
