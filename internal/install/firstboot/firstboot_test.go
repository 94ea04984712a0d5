package firstboot_test

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"gatehouse/internal/install/firstboot"
)

const siteText = `# Old password: hunter22-in-a-comment
name = "north-gate"
timezone = "Europe/Berlin"

[http]
tls_listen = ["[::]:443"]

[[account]]
email = "porter@example.test"
password = "given-porter-password" # and one more: second-in-a-comment

[[account]]
email = "owner@example.test"
admin = true

[[account]]
email = "guest@example.test"
password_file = "guest.password"

[[station]]
id = 1042
name = "North entrance"
locks = 2
secret = "GIVENSECRETOF1042"
token = "given-token-of-1042"

[[station]]
id = 1043
token = "given-token-of-1043"

[[grant]]
account = "porter@example.test"
stations = [1042, 1043]
hours = "Mon-Fri 08:00-18:00"
until = 2026-01-01T00:00:00Z
`

const guestPassword = "given-guest-password"

// given are the secrets that the site file states: when all is done, none is anywhere.
func given() []string {
	return []string{
		"given-porter-password", guestPassword, "GIVENSECRETOF1042", "given-token-of-1042", "given-token-of-1043",
		"hunter22-in-a-comment", "second-in-a-comment",
	}
}

func withSite(t *testing.T) *board {
	b := newBoard(t).withListeners()
	b.write("boot/gatehouse-site.toml", strings.ReplaceAll(siteText, "\n", "\r\n"))
	b.write("boot/guest.password", guestPassword+"\r\n")
	return b
}

func TestRun(t *testing.T) {
	b := withSite(t)
	out, err := b.run()
	if err != nil {
		t.Fatal(err)
	}
	b.checkDone()
	if b.boots != 2 {
		t.Errorf("the gateway was started %d times, want once again", b.boots)
	}
	if out.File != b.path("boot/gatehouse-site.toml") || out.Result != b.path("boot/gatehouse-result.txt") || out.SettingsFile != b.path("etc/conf.d/50-site.toml") ||
		len(out.Changes) != 5 || len(out.Problems) != 0 || len(out.Warnings) != 0 {
		t.Errorf("the outcome is %+v", out)
	}
	if want := []string{"https://192.168.1.20", "https://[2001:db8::20]", "https://north-gate.local"}; !slices.Equal(out.Addresses, want) {
		t.Errorf("addresses %q, want %q", out.Addresses, want)
	}
	// A second time, there is nothing to do.
	if again, err := b.run(); err != nil || again.File != "" || b.boots != 2 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// checkDone finds what must be true in the end, however it came to be.
func (b *board) checkDone() {
	b.t.Helper()
	if b.exists("boot/gatehouse-site.toml") || b.exists("boot/guest.password") || b.exists("boot/gatehouse-site.toml.wiping") || b.exists("etc/first-boot.state") {
		b.t.Error("the site file, its password file, the state or the old settings are still there")
	}
	result := b.read("boot/gatehouse-result.txt")
	if !strings.HasPrefix(result, "Gatehouse: OK\n") || strings.Contains(result, "\r") {
		b.t.Errorf("the result reads\n%q", result)
	}
	generated := []string{b.accounts["owner@example.test"].Reveal(), b.stations[1043].Secret.Reveal()}
	for _, secret := range generated {
		if len(secret) < 20 || !strings.Contains(result, " "+secret+"\n") {
			b.t.Errorf("the result does not tell the generated %q:\n%s", secret, result)
		}
	}
	for name, text := range b.files() {
		for _, secret := range given() {
			if strings.Contains(text, secret) {
				b.t.Errorf("%s holds %s:\n%s", name, secret, text)
			}
		}
		for _, secret := range generated {
			if name != "boot/gatehouse-result.txt" && strings.Contains(text, secret) {
				b.t.Errorf("%s holds a generated secret:\n%s", name, text)
			}
		}
	}
	b.checkGateway()
}

func (b *board) checkGateway() {
	b.t.Helper()
	if b.accounts["porter@example.test"] != "given-porter-password" || b.accounts["guest@example.test"] != guestPassword ||
		len(b.accounts) != 3 || !b.admins["owner@example.test"] || b.admins["porter@example.test"] {
		b.t.Errorf("the accounts are %v", slices.Sorted(maps.Keys(b.accounts)))
	}
	if s := b.stations[1042]; s.Secret != "GIVENSECRETOF1042" || s.Token != "given-token-of-1042" || len(b.stations) != 2 {
		b.t.Errorf("the stations are %v", slices.Sorted(maps.Keys(b.stations)))
	}
	if b.stations[1043].Token != "given-token-of-1043" {
		b.t.Error("a token that was given was replaced")
	}
	const settings = "name = 'north-gate'\n\n[http]\ntls_listen = ['[::]:443']\n"
	if got := b.read("etc/conf.d/50-site.toml"); got != firstboot.SettingsHead+settings {
		b.t.Errorf("the settings read\n%s", got)
	}
	if !b.up || b.config.Name != "north-gate" || b.config.Log.Level != "warn" {
		b.t.Errorf("the gateway (up: %t) runs with %+v", b.up, b.config)
	}
	if done := b.read("boot/gatehouse-site.done.toml"); !strings.Contains(done, "email = 'porter@example.test'\npassword = ''\n") || !strings.Contains(done, "id = 1042") {
		b.t.Errorf("the old site file reads\n%s", done)
	}
	if b.read("boot/cmdline.txt") != "console=tty1\n" || b.read("etc/gatehouse.toml") != present {
		b.t.Error("a file of someone else was changed")
	}
}

// Without a service manager the settings wait, and that is said.
func TestRun_noServiceManager(t *testing.T) {
	b := withSite(t)
	b.disabled = true
	out, err := b.run()
	if err != nil || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "take effect when the gateway is started again") {
		t.Errorf("got %+v, %v", out, err)
	}
	if result := b.read("boot/gatehouse-result.txt"); !strings.Contains(result, "TO NOTE\n  - The settings take effect when the gateway is started again") {
		t.Errorf("the result reads\n%s", result)
	}
}

// What the gateway refuses on the way leaves the site file as it is, for the next try.
func TestRun_refusedByTheGateway(t *testing.T) {
	b := newBoard(t)
	const text = "[[account]]\nemail = \"a@example.test\"\npassword = \"given-porter-password\"\n[[account]]\nemail = \"refused@example.test\"\n"
	b.write("boot/gatehouse-site.toml", text)
	before := b.files()
	_, err := b.run()
	if want := b.path("boot/gatehouse-site.toml") + ": this account is refused\n" + b.path("boot/gatehouse-site.toml") + ": and so is everything else"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	after := b.files()
	delete(after, "boot/gatehouse-result.txt")
	if !reflect.DeepEqual(before, after) || len(b.accounts) > 0 {
		t.Errorf("something was changed: %v", slices.Sorted(maps.Keys(after)))
	}
}

// The next site file adds to the settings of the one before, and an account that has a
// password keeps it.
func TestRun_secondSite(t *testing.T) {
	b := withSite(t)
	if _, err := b.run(); err != nil {
		t.Fatal(err)
	}
	owner := b.accounts["owner@example.test"]
	b.write("boot/gatehouse-site.toml.txt", "[http]\nmetrics = true\n[[account]]\nemail = \"owner@example.test\"\n")
	if _, err := b.run(); err != nil {
		t.Fatal(err)
	}
	const settings = "name = 'north-gate'\n\n[http]\nmetrics = true\ntls_listen = ['[::]:443']\n"
	if got := b.read("etc/conf.d/50-site.toml"); got != firstboot.SettingsHead+settings {
		t.Errorf("the settings read\n%s", got)
	}
	if b.accounts["owner@example.test"] != owner || strings.Count(b.read("boot/gatehouse-result.txt"), owner.Reveal()) != 1 {
		t.Errorf("the password was changed, or is not in the result any more:\n%s", b.read("boot/gatehouse-result.txt"))
	}
	if b.exists("boot/gatehouse-site.toml.txt") || !b.config.HTTP.Metrics {
		t.Error("the file with the name that Windows makes was not taken")
	}
}

// It is all the same however the configuration is named; and a part with a later name
// wins over the settings of the site.
func TestRun_relativePath(t *testing.T) {
	b := newBoard(t)
	b.write("etc/conf.d/50-site.toml", "[http]\nmetrics = true\n")
	b.write("etc/conf.d/70-ours.toml", "[log]\nlevel = \"error\"\n")
	b.write("boot/gatehouse-site.toml", "[log]\nlevel = \"debug\"\nformat = \"json\"\n")
	t.Chdir(b.root)
	cfg := b.firstBoot()
	cfg.Settings, cfg.File = "etc/gatehouse.toml", "boot/gatehouse-site.toml"
	out, err := firstboot.Run(t.Context(), cfg)
	if err != nil || out.SettingsFile != b.path("etc/conf.d/50-site.toml") || out.Result != b.path("boot/gatehouse-result.txt") {
		t.Fatalf("got %+v, %v", out, err)
	}
	const settings = "[http]\nmetrics = true\n\n[log]\nformat = 'json'\nlevel = 'debug'\n"
	if got := b.read("etc/conf.d/50-site.toml"); got != firstboot.SettingsHead+settings {
		t.Errorf("the settings read\n%s", got)
	}
	if b.config.Log.Level != "error" || b.config.Log.Format != "json" || !b.config.HTTP.Metrics {
		t.Errorf("the gateway runs with %+v", b.config)
	}
}

func TestRun_nothingToDo(t *testing.T) {
	b := newBoard(t)
	before := b.files()
	out, err := b.run()
	if err != nil || out.File != "" || !reflect.DeepEqual(b.files(), before) {
		t.Errorf("got %+v, %v", out, err)
	}
	text, err := json.Marshal(out)
	if want := `{"file":"","dryRun":false,"onlyWiped":false,"changes":[],"addresses":[],"warnings":[],"problems":[]}`; err != nil || string(text) != want {
		t.Errorf("as JSON: %s", text)
	}
}

// The first place wins; another file is found the next time.
func TestRun_twoFiles(t *testing.T) {
	b := newBoard(t)
	b.write("boot/gatehouse-site.toml", "")
	b.write("boot2/gatehouse-site.toml", "")
	for _, want := range []string{"boot/gatehouse-site.toml", "boot2/gatehouse-site.toml", ""} {
		if out, err := b.run(); err != nil || out.File != "" && out.File != b.path(want) || (want == "") != (out.File == "") {
			t.Errorf("got %+v, %v", out, err)
		}
	}
}

// A dry run changes nothing, with a gateway and without.
func TestRun_dryRun(t *testing.T) {
	for name, up := range map[string]bool{"with the gateway": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			b := withSite(t)
			b.up = up
			before := b.files()
			cfg := b.firstBoot()
			cfg.DryRun = true
			out, err := firstboot.Run(t.Context(), cfg)
			if err != nil || !reflect.DeepEqual(b.files(), before) || len(b.accounts) > 0 || b.boots != 1 {
				t.Errorf("got %+v, %v", out, err)
			}
			if up != (len(out.Changes) == 5) || up == slices.ContainsFunc(out.Warnings, func(w string) bool { return strings.HasPrefix(w, "Checked without the gateway") }) {
				t.Errorf("got %+v", out)
			}
		})
	}
}

// A gateway that does not run is waited for, then named.
func TestRun_gatewayDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withSite(t)
		b.up = false
		cfg := b.firstBoot()
		cfg.Complaint = func(context.Context) string { return "port 443 is in use" }
		before := b.files()
		_, err := firstboot.Run(t.Context(), cfg)
		if want := "the gateway is not ready, so nothing can be set up: port 443 is in use"; err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
		after := b.files()
		if !strings.Contains(after["boot/gatehouse-result.txt"], "port 443 is in use") {
			t.Errorf("the result reads\n%s", after["boot/gatehouse-result.txt"])
		}
		delete(after, "boot/gatehouse-result.txt")
		if !reflect.DeepEqual(before, after) {
			t.Error("something was changed")
		}
	})
}

// A site file that is edited while it is applied is a new one: it is not wiped unapplied.
func TestRun_editedMeanwhile(t *testing.T) {
	b := newBoard(t)
	b.write("boot/gatehouse-site.toml", "[[account]]\nemail = \"a@example.test\"\n")
	const edited = "[[account]]\nemail = \"b@example.test\"\n"
	cfg := b.firstBoot()
	cfg.Network = func() string {
		b.write("boot/gatehouse-site.toml", edited)
		return ""
	}
	out, err := firstboot.Run(t.Context(), cfg)
	if err != nil || b.read("boot/gatehouse-site.toml") != edited || len(out.Warnings) != 1 {
		t.Fatalf("%v, %+v; the site file is %q", err, out, b.read("boot/gatehouse-site.toml"))
	}
	if _, err := b.run(); err != nil || len(b.accounts) != 2 || b.exists("boot/gatehouse-site.toml") || b.exists("etc/first-boot.state") {
		t.Errorf("the edited file: %v, %v", err, b.accounts)
	}
}
