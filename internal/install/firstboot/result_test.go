package firstboot_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/install/firstboot"
	"gatehouse/internal/web/adminapi"
)

// The result waits a moment for the network, because its reader looks for the
// address; and not for ever.
func TestRun_network(t *testing.T) {
	for offline, want := range map[int]int{10: 3, 5000: 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBoard(t).withListeners()
			b.write("boot/gatehouse-site.toml", "")
			b.offline = offline
			start := time.Now()
			out, err := b.run()
			if err != nil || len(out.Addresses) != want || len(out.Warnings) != want%3 {
				t.Errorf("got %+v, %v", out, err)
			}
			if took := time.Since(start); took > 21*time.Second || !strings.Contains(b.read("boot/gatehouse-result.txt"), "Nothing: the site file is empty.") {
				t.Errorf("it took %s and says\n%s", took, b.read("boot/gatehouse-result.txt"))
			}
		})
	}
}

// Addresses that only this board can reach are of no use to anybody.
func TestRun_listeners(t *testing.T) {
	for listeners, want := range map[string]string{
		"http 127.0.0.1:8080":                  "",
		"http 192.168.1.20:8080":               "http://192.168.1.20:8080",
		"http 0.0.0.0:80, http [::1]:8080":     "http://192.168.1.20 http://[2001:db8::20] http://gate.local",
		"https 10.0.0.1:8443, http 0.0.0.0:80": "https://10.0.0.1:8443",
	} {
		b := newBoard(t)
		b.write("boot/gatehouse-site.toml", "")
		for l := range strings.SplitSeq(listeners, ", ") {
			name, address, _ := strings.Cut(l, " ")
			b.listeners = append(b.listeners, adminapi.Listener{Name: name, Address: address})
		}
		if out, err := b.run(); err != nil || strings.Join(out.Addresses, " ") != want {
			t.Errorf("%s: got %q, %v; want %s", listeners, out.Addresses, err, want)
		}
	}
}

// The result of a first boot, as a person reads it.
func TestRun_result(t *testing.T) {
	b := withSite(t)
	if _, err := b.run(); err != nil {
		t.Fatal(err)
	}
	text := b.read("boot/gatehouse-result.txt")
	for name, secret := range map[string]string{
		"<owner's password>": b.accounts["owner@example.test"].Reveal(), "<secret of 1043>": b.stations[1043].Secret.Reveal(),
	} {
		text = strings.ReplaceAll(text, secret, name)
	}
	golden(t, "ok", strings.ReplaceAll(text, b.root, ""))
}

// golden compares a text with a file of testdata, and writes the file instead where
// the environment asks for it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := fmt.Sprintf("testdata/%s.result", regexp.MustCompile(`\W+`).ReplaceAllString(name, "-"))
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%v: got\n%s\nand %s says\n%s", err, got, path, want)
	}
}

// On a card that every user of the board can read, as that of Raspberry Pi OS, the
// result has no generated password: those are for root alone.
func TestRun_publicCard(t *testing.T) {
	b := withSite(t)
	cfg := b.firstBoot()
	var asked []string
	cfg.UsePublic(func(path string) bool { asked = append(asked, path); return true })
	out, err := firstboot.Run(t.Context(), cfg)
	if err != nil || out.Result != b.path("boot/gatehouse-result.txt") || len(asked) == 0 || asked[0] != b.path("boot") {
		t.Fatalf("%+v, %v, asked of %v", out, err, asked)
	}
	card, aside := b.read("boot/gatehouse-result.txt"), b.read("etc/gatehouse-result.txt")
	for _, secret := range []string{b.accounts["owner@example.test"].Reveal(), b.stations[1043].Secret.Reveal()} {
		if secret == "" || strings.Contains(card, secret) || !strings.Contains(aside, " "+secret+"\n") {
			t.Errorf("%q: the card says\n%s\nand the file for root\n%s", secret, card, aside)
		}
	}
	if !strings.HasPrefix(card, "Gatehouse: OK\n") || !strings.Contains(card, b.path("etc/gatehouse-result.txt")) {
		t.Errorf("the card says\n%s", card)
	}
	if info, err := os.Stat(b.path("etc/gatehouse-result.txt")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if b.exists("etc/first-boot.state") || b.exists("boot/gatehouse-site.toml") {
		t.Error("it is not done")
	}
}

// What to do next depends on whether the system has a shell.
func TestRun_whatToDo(t *testing.T) {
	for image, want := range map[bool]string{false: "run: sudo systemctl restart gatehouse-site\n", true: "put the card back and switch the gateway on again.\n"} {
		b := newBoard(t)
		b.write("boot/gatehouse-site.toml", "[htp]\n")
		cfg := b.firstBoot()
		cfg.TakesName = image
		if _, err := firstboot.Run(t.Context(), cfg); err == nil || !strings.Contains(b.read("boot/gatehouse-result.txt"), want) {
			t.Errorf("image %t: %v\n%s", image, err, b.read("boot/gatehouse-result.txt"))
		}
	}
}
