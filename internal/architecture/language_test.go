package architecture_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plain has words that a reader stumbles over, and what is written instead.
func plain() map[string]string {
	return map[string]string{
		`gives`:                                  "returns, sets, adds, shows",
		`gives? back`:                            "release, return",
		`(gives?|gave) way`:                      "is evicted",
		`(bites|biting)`:                         "takes effect",
		`mends|mended|mending`:                   "fix, repair", // mend is a field of the doctor's JSON
		`in earnest`:                             "in production",
		`typing errors?`:                         "typo",
		`whoever|whomever`:                       "the caller, the client, the operator",
		`(turn|throw|threw)(s|ed|n)? (away|out)`: "reject, evict",
		`tak(es?|en|ing) away`:                   "remove, revoke",
		`looks whether`:                          "reports whether",
		`is no stranger`:                         "is known",
	}
}

// texts returns what people read of a file: comments and string literals of Go code,
// every line of another file. Keys are places, such as "site/id.go:12".
func texts(t *testing.T, path string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	if filepath.Ext(path) != ".go" {
		for n, line := range strings.Split(string(content), "\n") {
			found[fmt.Sprintf("%s:%d", path, n+1)] = line
		}
		return found
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, content, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			found[files.Position(c.Pos()).String()] = c.Text
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			found[files.Position(lit.Pos()).String()] = lit.Value
		}
		return true
	})
	return found
}

// hard finds the words of [plain].
func hard() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(slices.Collect(maps.Keys(plain())), "|") + `)\b`)
}

// stumbles lists the places of a text that need plainer words.
func stumbles(hard *regexp.Regexp, text string) (found []string) {
	for _, match := range hard.FindAllString(text, -1) {
		for words, instead := range plain() {
			if regexp.MustCompile(`(?i)^(?:` + words + `)$`).MatchString(match) {
				found = append(found, fmt.Sprintf("%q: write %s", match, instead))
			}
		}
	}
	return found
}

func TestLanguage(t *testing.T) {
	words := hard()
	suffixes := regexp.MustCompile(`\.(go|md|toml|sh|service|socket|path|yaml|txtar)$`)
	for _, top := range []string{"cmd", "internal", "scripts", "packaging", "configs", "systemd", "README.md", "Makefile"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !suffixes.MatchString(path) && entry.Name() != "Makefile" || entry.Name() == "language_test.go" {
				return err
			}
			for place, text := range texts(t, path) {
				for _, why := range stumbles(words, text) {
					t.Errorf("%s: %s", place, why)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestStumbles(t *testing.T) {
	for text, want := range map[string]bool{
		"Load gives the zone of a name.":   true,
		"Revoking bites at once.":          true,
		"in earnest the broker needs TLS":  true,
		"Load returns the zone of a name.": false,
		"The client gave up.":              false,
		"throughout":                       false,
	} {
		if got := len(stumbles(hard(), text)) > 0; got != want {
			t.Errorf("stumbles(%q) is %t, want %t", text, got, want)
		}
	}
}
