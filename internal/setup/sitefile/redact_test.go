package sitefile_test

import (
	"os"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"gatehouse/internal/setup/sitefile"
)

func TestRedact(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"values":       {`password = "hunter22"` + "\n" + `token='abc' # old: xyz` + "\r\nid = 7\n", `password = ""        ` + "\n" + `token=""   ` + " " + strings.Repeat(" ", 10) + "\r\nid = 7\n"},
		"mark":         {"\ufeffsecret = \"xyz\" # c\n", "\ufeffsecret = \"\"       \n"},
		"comments":     {"# password = \"old-one\"\nid = 1 # of \u00fc\n", strings.Repeat(" ", 22) + "\nid = 1 " + strings.Repeat(" ", 7) + "\n"},
		"not comments": {"name = \"# 1\"\nnote = '''\n# password = \"x\"'''\n", "name = \"# 1\"\nnote = '''\n# password = \"x\"'''\n"},
		"inline":       {`account = [{email = "a", password = "p,}\"]#"}, {password='q'}]`, `account = [{email = "a", password = ""       }, {password="" }]`},
		"many lines":   {"secret = \"\"\"\nline\nline\"\"\"\nid = 2\n", "secret = \"\"" + strings.Repeat(" ", 14) + "\nid = 2\n"},
		"quoted key":   {`"pass\u0077ord" = "hunter22"`, `"pass\u0077ord" = ""        `},
		"dotted":       {`cloud.client_secret = "hunter22"`, `cloud.client_secret = ""        `},
		"below":        {"[token]\na = \"x\"\nb = [\"y\", 3]\n", "[token]\na = \"\" \nb = \"\"      \n"},
		"files stay":   {`password_file = "porter.password"`, `password_file = "porter.password"`},
		"elsewhere":    {"name = \"hunter22 s\"\npassword = \"hunter22\"\n", strings.Repeat(" ", 19) + "\n" + strings.Repeat(" ", 21) + "\n"},
		"escaped":      {"name = \"hunter22\"\npassword = \"hunter\\u00322\"\n", strings.Repeat(" ", 17) + "\n" + strings.Repeat(" ", 26) + "\n"},
		"not TOML":     {"password = \"x\nid = 3\n", strings.Repeat(" ", 13) + "\n" + strings.Repeat(" ", 6) + "\n"},
		"no end":       {`password = "hunter22"`, `password = ""        `},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(sitefile.Redact([]byte(c.text))); got != c.want {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}

// The examples lose their secrets and nothing else.
func TestRedact_example(t *testing.T) {
	text, err := os.ReadFile("../../../configs/site.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	var before, after map[string]any
	if _, err := toml.Decode(string(text), &before); err != nil {
		t.Fatal(err)
	}
	if _, err := toml.Decode(string(sitefile.Redact(text)), &after); err != nil {
		t.Fatal(err)
	}
	accounts, _ := after["account"].([]map[string]any)
	stations, _ := after["station"].([]map[string]any)
	if len(accounts) != 2 || accounts[0]["email"] != "porter@example.test" || accounts[0]["password"] != "" {
		t.Errorf("the accounts read %v", accounts)
	}
	if len(stations) != 3 || stations[0]["name"] != "North entrance" || stations[0]["secret"] != "" || stations[0]["token"] != "" {
		t.Errorf("the stations read %v", stations)
	}
}

// Whatever the text: it stays as long, and no secret stays in it.
func FuzzRedact(f *testing.F) {
	for _, seed := range []string{
		"password = \"hunter22\"\n# token\n", "account = [{password = '''a\nb'''}]", "[[station]]\nsecret = \"x\\\"y\"\ntoken = 'z'\n", "\ufeff\"secret\".a = [\"long-word\"]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 10_000 {
			return
		}
		if depth, _ := sitefile.Deepest(string(data)); depth > 32 {
			return // refused before it comes here
		}
		out := sitefile.Redact(data)
		if len(out) != len(data) {
			t.Fatalf("%d bytes became %d", len(data), len(out))
		}
		doc := map[string]any{}
		if _, err := toml.Decode(strings.TrimPrefix(string(data), "\ufeff"), &doc); err != nil {
			return
		}
		for _, name := range []string{"password", "secret", "token"} {
			if text, is := doc[name].(string); is && strings.TrimSpace(text) != "" && strings.Contains(string(out), text) {
				t.Errorf("%q is left in %q", text, out)
			}
		}
	})
}

// A file may hold what belongs to another parser; only what neither knows is wrong.
func TestParseMixed(t *testing.T) {
	const text = "name = \"gate\"\ntimezone = \"UTC\"\n[[account]]\nemail = \"a@b.test\"\n[http]\nnonsense = 1\n[[grant]]\naccount = \"a@b.test\"\nstations = [7]\n"
	m, err := sitefile.ParseMixed("site.toml", []byte(text), []string{"name", "http"})
	if err != nil || m.Site.TimeZone != "UTC" || len(m.Site.Accounts) != 1 {
		t.Fatalf("got %+v, %v", m.Site.TimeZone, err)
	}
	for path, want := range map[string]int{"timezone": 2, "account[0].email": 4, "account[0].password": 3, "grant[0].stations": 9, "grant[0].stations[0]": 9} {
		if got := m.Line(path); got != want {
			t.Errorf("%s stands in line %d, want %d", path, got, want)
		}
	}
	for text, want := range map[string]string{
		"naem = \"x\"":                `site.toml:1: unknown key "naem": did you mean "name"?`,
		"[htp]":                       `site.toml:1: unknown key "htp": did you mean "http"?`,
		"quux = 1":                    `site.toml:1: unknown key "quux": the file has timezone, account, station, grant, name, http`,
		"[station]\nbattery_low = 11": `site.toml:1: write [[station]] with two pairs of brackets: there may be several; the settings of [station] in the configuration cannot stand here`,
	} {
		if _, err := sitefile.ParseMixed("site.toml", []byte(text), []string{"name", "http"}); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestParseMixed_passwordFiles(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"a.password": "correct horse", "b.password": "battery staple"} {
		if err := os.WriteFile(folder+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := "[[account]]\nemail = \"a@b.test\"\npassword_file = \"a.password\"\n[[account]]\nemail = \"b@b.test\"\npassword_file = \"" + folder + "/b.password\"\n"
	m, err := sitefile.ParseMixed(folder+"/site.toml", []byte(text), nil)
	if err != nil || len(m.PasswordFiles) != 2 || m.PasswordFiles[0] != folder+"/a.password" || m.PasswordFiles[1] != folder+"/b.password" {
		t.Errorf("got %v, %v", m.PasswordFiles, err)
	}
}
