package firstboot_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"

	"gatehouse/internal/install/firstboot"
)

// badSites are site files with which nothing is changed, by what is wrong with them.
func badSites() map[string]string {
	const account = "[[account]]\nemail = \"a@example.test\"\n"
	return map[string]string{
		"curly quotes":                account + "password = “canary”\n",
		"syntax error":                "[[account]]\nemail = \"a@example.test\npassword = \"canary-password\"\n",
		"forgotten quotes":            account + "password = canary-password\n",
		"unknown key":                 account + "passwrd = \"canary-password\"\n",
		"unknown section":             "[htp]\nlisten = []\n",
		"key of a section":            "[http]\nlistn = []\n[mqtt]\nlisten = 7\n",
		"key at the top":              "listen = []\nnaem = \"gate\"\n",
		"duplicate station":           "[[station]]\nid = 7\n[[station]]\nid = 8\n[[station]]\nid = 7\n",
		"short password":              account + "password = \"canary\"\n",
		"common password":             account + "password = \"Password123\"\n",
		"bad secret":                  "[[station]]\nid = 1\nsecret = \"canary\tpassword\"\n",
		"Latin-1":                     "# caf\xe9\n",
		"UTF-16":                      utf16Text("name = \"gate\"\n"),
		"Windows line ends":           "name = \"gate\"\r\n\r\n[[station]]\r\nid = \"7\"\r\n",
		"bad name":                    "name = \"the north gate\"\n",
		"bad certificate":             "[tls]\ncertificate = \"/etc/bad.crt\"\nkey = \"/etc/gate.key\"\n",
		"certificate alone":           "[tls]\ncertificate = \"/nonexistent/gate.crt\"\n",
		"wrong cloud":                 "[cloud]\nurl = \"tls://u:canary@mqtt.example.test\"\npassword = \"canary-password\"\nkeys = [\"canary\"]\n",
		"unknown in a grant":          account + "[[grant]]\naccount = \"b@example.test\"\nstations = [1]\n[[grant]]\naccount = \"a@example.test\"\nstations = [\n  2,\n]\n",
		"no time zone":                "timezone = \"Europe/Atlantis\"\n",
		"two time zones":              "timezone = \"Europe/Berlin\"\ntime_zone = \"UTC\"\n",
		"no password file":            account + "password_file = \"a.password\"\n",
		"settings of section station": "[station]\nbattery_low = 11.5\n",
		"too large":                   strings.Repeat("# nothing\n", 450_000),
		"many problems":               strings.Repeat("[[station]]\n", 30) + "[http]\nlistn = []\n",
	}
}

func utf16Text(text string) string {
	var b strings.Builder
	b.WriteString("\xff\xfe")
	for _, u := range utf16.Encode([]rune(text)) {
		b.WriteByte(byte(u))
		b.WriteByte(byte(u >> 8))
	}
	return b.String()
}

// Nothing changes, the result names what is wrong with its line, and no secret.
func TestRun_badSite(t *testing.T) {
	for name, text := range badSites() {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			b.write("boot/gatehouse-site.toml", strings.ReplaceAll(text, "ROOT", b.root))
			b.checkRefused(name)
		})
	}
}

// checkRefused runs a first boot that must not be done.
func (b *board) checkRefused(name string) {
	t := b.t
	t.Helper()
	before := b.files()
	out, err := b.run()
	if err == nil {
		t.Fatal("it was taken")
	}
	if len(out.Problems) == 0 || out.Result != b.path("boot/gatehouse-result.txt") {
		t.Errorf("the outcome is %+v", out)
	}
	after := b.files()
	result := after["boot/gatehouse-result.txt"]
	delete(after, "boot/gatehouse-result.txt")
	if !reflect.DeepEqual(before, after) || len(b.accounts) > 0 || b.boots != 1 {
		t.Errorf("something was changed: %v", after)
	}
	if strings.Contains(result+err.Error(), "canary") {
		t.Errorf("a secret is shown: %s\n%s", err, result)
	}
	for line := range strings.Lines(err.Error()) { // what the log has is in the result too
		line = strings.TrimPrefix(strings.TrimSpace(line), b.path("boot")+"/")
		if !strings.Contains(result, line) {
			t.Errorf("the result does not say %q", line)
		}
	}
	golden(t, "bad-"+name, strings.ReplaceAll(result, b.root, ""))
}

// A problem in another file of the configuration is named there.
func TestRun_badConfiguration(t *testing.T) {
	b := newBoard(t)
	b.write("boot/gatehouse-site.toml", "[unlock]\nttl = \"2h\"\n")
	b.write("etc/conf.d/70-ours.toml", "[log]\nlevel = \"debug\"\nlevl = 1\n")
	b.up = false
	b.checkRefused("configuration")
}

func TestRun_notAFile(t *testing.T) {
	b := newBoard(t)
	if err := os.Mkdir(b.path("boot/gatehouse-site.toml"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.checkRefused("folder")
}

func TestRun_namedFile(t *testing.T) {
	b := newBoard(t)
	cfg := b.firstBoot()
	cfg.File = b.path("elsewhere.toml")
	_, err := firstboot.Run(t.Context(), cfg)
	if want := cfg.File + ": the site file cannot be read: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	b.write("elsewhere.toml", "")
	b.write("boot/gatehouse-site.toml", "")
	if out, err := firstboot.Run(t.Context(), cfg); err != nil || out.File != cfg.File || !b.exists("gatehouse-result.txt") || !b.exists("boot/gatehouse-site.toml") {
		t.Errorf("got %+v, %v", out, err)
	}
}
