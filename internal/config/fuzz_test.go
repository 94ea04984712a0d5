package config_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"gatehouse/internal/config"
	"gatehouse/internal/setup/tomlfile"
)

// Whatever is in the file: either the configuration is valid, or every
// problem names a line of the file or a key.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile(annotated)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	for _, seed := range []string{
		"", "data = 7", "[http]\nlistn = []", "[[http]]", "http.listen = []", "[log]\nlevel = \"\"\"\n\n\"\"\"",
		"\"a.b\".c = 1", "[mqtt]\npackets_per_second = nan", "[unlock]\nttl = 1979-05-27", "[tls]\nkey = {x = [1, [2]]}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("f.toml", []byte(text), home())
		if err == nil {
			if faults := config.Faults(c); len(faults) > 0 {
				t.Errorf("what was read is refused: %q", faults)
			}
			return
		}
		all, ok := errors.AsType[*tomlfile.Error](err)
		if !ok || len(all.Problems) == 0 {
			t.Fatalf("no problems in %v", err)
		}
		lines := strings.Count(text, "\n") + 1
		for _, p := range all.Problems {
			inFile := p.File == "f.toml" && p.Line >= 1 && p.Line <= lines
			more := p.Line == 0 && strings.HasSuffix(p.Text, "more problems are not shown")
			if !inFile && p.File != "" && !more || p.Text == "" || strings.ContainsAny(p.String(), "\n\r") {
				t.Errorf("a problem without a place, or of more than one line: %q", p)
			}
		}
	})
}
