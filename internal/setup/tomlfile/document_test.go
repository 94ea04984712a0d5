package tomlfile_test

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"gatehouse/internal/setup/tomlfile"
)

func TestDecode_lines(t *testing.T) {
	text := `# a comment with [brackets] and "quotes
timezone = 'UTC' # another
[[station]]
id = 1
name = """
[[station]]
not = "a key" \""" """"
[[ station ]]
"id"	=	2
locks . "x.y" = [ # one
  [1, 2], { a = "}", b = '#' },
  '''
]''', 3]
five = ["""x""""", 1]
[station.inner]
z = 2026-01-01 00:00:00Z
[[station.list]]
[[station.list]]
q = 1
[[grant]]
stations = [
  7,

  8, ]
`
	d, err := tomlfile.Decode("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"timezone": 2, "station 0": 3, "station 0 id": 4, "station 0 name": 5, "station 1": 8,
		"station 1 id": 9, "station 1 locks": 10, "station 1 locks x.y": 10, "station 1 locks x.y 1 b": 10, "station 1 five 1": 14,
		"station 1 inner": 15, "station 1 inner z": 16, "station 1 list 0": 17, "station 1 list 1": 18,
		"station 1 list 1 q": 19, "grant 0": 20, "grant 0 stations 1": 21, "station 0 not": 3, "none": 1,
	} {
		if got := d.Line(strings.Fields(path)...); got != want {
			t.Errorf("%s is in line %d, want %d", path, got, want)
		}
	}
}

// A text that nests too deeply is refused before the decoder recurses into it.
func TestDecode_depth(t *testing.T) {
	for name, text := range map[string]string{
		"dots":     "x = 1\n" + strings.Repeat("a.", 100_000) + "a = 1",
		"brackets": "x = 1\na = " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"braces":   "x = 1\na = " + strings.Repeat("{a=", 50) + "1" + strings.Repeat("}", 50),
		"tables":   "x = 1\n[" + strings.Repeat("a.", 40) + "a]",
	} {
		if _, err := tomlfile.Decode("f", []byte(text)); err == nil || err.Error() != "f:2: brackets or keys are nested too deeply" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDocument_Redacted(t *testing.T) {
	text := `# password = 'canary'
name = "gate" # canary
[[account]]
email = "a@b.test"
"pass\u0077ord" = "canary"
password_file = "a.password"
admin = true
[[station]]
id = 7
secret = 'canary'
[cloud]
client_secret = """
canary"""
[token]
a = ["canary", 3]
b = {c = "canary"}
`
	d, err := tomlfile.Decode("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Redacted()
	if err != nil || strings.Contains(string(got), "canary") {
		t.Errorf("%s, %v", got, err)
	}
	again, err := tomlfile.Decode("f", got)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"email": "a@b.test", "password": "", "password_file": "a.password", "admin": true}
	if !reflect.DeepEqual(again.Values["account"], []any{want}) {
		t.Errorf("%s", got)
	}
}

func TestReport(t *testing.T) {
	err := tomlfile.Report([]tomlfile.Problem{
		{File: "b", Line: 3, Text: "1"},
		{File: "a", Text: "2"},
		{File: "b", Text: "3"},
		{File: "b", Line: 1, Text: "4"},
		{Text: "5"},
		{File: "a", Line: 7, Text: "6"},
	})
	if want := "b:1: 4\nb:3: 1\nb: 3\na:7: 6\na: 2\n5"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if err := tomlfile.Report(nil); err != nil {
		t.Errorf("none is %v", err)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"data", "name", "http", "listen", "tls_listen", "id"}
	for text, want := range map[string]string{
		"dta": "data", "naem": "name", "htp": "http", "listn": "listen", "tls_lisen": "tls_listen", "Listen": "listen",
		"is": "", "quux": "", "": "", strings.Repeat("x", 10_000): "",
	} {
		if got := tomlfile.Nearest(text, words); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Whatever the text: it ends, each value has a line of the text, a problem names one, and
// a redacted copy holds no secret.
func FuzzDecode(f *testing.F) {
	example, err := os.ReadFile("../../../configs/site.example.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(example), "a = [{b = \"\"\"x\\\"\"\"\"\"}, '''y''''']\n\"q\\\"r\".s = 1\n[[t]]\n[t.u]\n[[t.v]]\n", "\ufeff\"secret\".a = [\"long-word\"]",
		"account = [{password = '''a\nb'''}]", "password = \"x\ny", "\xff\xfea", "a = 1979-05-27\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := strings.Count(string(text), "\n") + 1
		d, err := tomlfile.Decode("f", text)
		if err != nil {
			all, ok := errors.AsType[*tomlfile.Error](err)
			if !ok || len(all.Problems) != 1 || all.Problems[0].Line < 1 || all.Problems[0].Line > lines || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%v", err)
			}
			return
		}
		for name := range d.Values {
			if line := d.Line(name); line < 1 || line > lines {
				t.Errorf("%s is in line %d of %d", name, line, lines)
			}
		}
		redacted, err := d.Redacted()
		if err != nil {
			t.Fatal(err)
		}
		again, err := tomlfile.Decode("f", redacted)
		if err != nil {
			t.Fatalf("the redacted copy: %v", err)
		}
		for _, name := range []string{"password", "secret", "token"} {
			if text, ok := again.Values[name].(string); ok && text != "" {
				t.Errorf("%v is left in %q", text, redacted)
			}
		}
	})
}

// Of several documents, each key has its last value.
func TestExtract(t *testing.T) {
	var documents []*tomlfile.Document
	for _, text := range []string{
		"name = \"a\" # a comment\ntimezone = \"UTC\"\n[http]\nmetrics = true\nlisten = []\n",
		"name = \"b\"\n[http]\nlisten = [\":80\"]\n[cloud]\npassword = \"x\"\n",
	} {
		d, err := tomlfile.Decode("f.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, d)
	}
	text, redacted, err := tomlfile.Extract([]string{"name", "http", "cloud"}, documents...)
	const want = "name = 'b'\n\n[cloud]\npassword = 'x'\n\n[http]\nlisten = [':80']\nmetrics = true\n"
	if err != nil || string(text) != want || string(redacted) != strings.Replace(want, "'x'", "''", 1) {
		t.Errorf("got %v\n%s\n%s\nwant\n%s", err, text, redacted, want)
	}
}
