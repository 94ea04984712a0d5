package sitefile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"gatehouse/internal/setup/sitefile"
)

func TestLinesOf(t *testing.T) {
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
	if err := toml.Unmarshal([]byte(text), &map[string]any{}); err != nil {
		t.Fatalf("the text of the test is not TOML: %v", err)
	}
	lines := sitefile.LinesOf(text)
	for path, want := range map[string]int{
		"timezone": 2, "station": 3, "station[0]": 3, "station[0].id": 4, "station[0].name": 5, "station[1]": 8,
		"station[1].id": 9, "station[1].locks": 10, "station[1].locks.x.y": 10, "station[1].locks.x.y[0]": 11,
		"station[1].locks.x.y[0][1]": 11, "station[1].locks.x.y[1].b": 11, "station[1].locks.x.y[2]": 12,
		"station[1].locks.x.y[3]": 13, "station[1].five[1]": 14, "station[1].inner": 15, "station[1].inner.z": 16, "station[1].list[0]": 17,
		"station[1].list[1]": 18, "station[1].list[1].q": 19, "grant[0]": 20, "grant[0].stations[1]": 24,
	} {
		if lines[path] != want {
			t.Errorf("%s stands in line %d, want %d", path, lines[path], want)
		}
	}
	for _, path := range []string{"station[0].not", "station[1].five[2]"} {
		if _, found := lines[path]; found {
			t.Errorf("%s was found within a text", path)
		}
	}
}

// FuzzParse feeds arbitrary bytes to the parser. Whatever parses must pass its own
// check, and whatever is TOML must have a line for every value.
func FuzzParse(f *testing.F) {
	f.Add([]byte("[[account]]\nemail = \"a@b.test\"\npassword = 'correct horse'\nadmin = true\n"))
	f.Add([]byte("[[station]]\nid = 7\nlocks = 2\n[[grant]]\naccount = \"a@b.test\"\nstations = [7,\n8]\nhours = \"Mon 08:00-09:00\"\n"))
	f.Add([]byte("a = [{b = \"\"\"x\\\"\"\"\"\"}, '''y''''']\n\"q\\\"r\".s = 1\n[[t]]\n[t.u]\n[[t.v]]\n"))
	f.Add([]byte("\ufefftimezone = \"UTC\"\r\n#x\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := sitefile.Parse("f", data)
		if err == nil {
			if err := s.Check(); err != nil {
				t.Errorf("parsed, but its check says: %v", err)
			}
		}
		text := strings.TrimPrefix(string(data), "\ufeff")
		if depth, _ := sitefile.Deepest(text); depth > 32 {
			return
		}
		lines := sitefile.LinesOf(text)
		doc := map[string]any{}
		if _, err := toml.Decode(text, &doc); err == nil && plainKeys(text) {
			everyValue(t, lines, "", doc)
		}
	})
}

// plainKeys leaves out what the paths of the scanner do not tell apart.
func plainKeys(text string) bool {
	return !strings.ContainsAny(text, "\\\x00\ufeff") && !strings.Contains(text, `""`) && !strings.Contains(text, "''")
}

func everyValue(t *testing.T, lines map[string]int, path string, value any) {
	t.Helper()
	if path != "" && lines[path] < 1 {
		t.Errorf("no line for %q", path)
	}
	switch v := value.(type) {
	case map[string]any:
		for key, element := range v {
			everyValue(t, lines, strings.TrimPrefix(path+"."+key, "."), element)
		}
	case []map[string]any:
		for i, element := range v {
			everyValue(t, lines, fmt.Sprintf("%s[%d]", path, i), element)
		}
	case []any:
		for i, element := range v {
			everyValue(t, lines, fmt.Sprintf("%s[%d]", path, i), element)
		}
	}
}
