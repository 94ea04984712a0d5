package config_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"gatehouse/internal/config"
)

// Whatever stands in the file: either the configuration is valid, or every
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
			if err := c.Validate(); err != nil {
				t.Errorf("what was read is refused: %v", err)
			}
			return
		}
		all, ok := errors.AsType[*config.Error](err)
		if !ok || len(all.Problems) == 0 {
			t.Fatalf("no problems in %v", err)
		}
		lines := strings.Count(text, "\n") + 1
		for _, p := range all.Problems {
			if !placed(p, lines) || p.What == "" || strings.ContainsAny(p.String(), "\n\r") {
				t.Errorf("a problem without a place, or of more than one line: %q", p)
			}
		}
	})
}

// placed reports whether the problem names a key, or a line that the file has.
func placed(p config.Problem, lines int) bool {
	var c config.Config
	for _, k := range config.Keys(&c) {
		if p.Where == k.Path {
			return true
		}
	}
	var line int
	n, err := fmt.Sscanf(p.Where, "f.toml:%d", &line)
	return err == nil && n == 1 && line >= 1 && line <= lines
}
