package architecture_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// alone is something that only one package of the product may do.
type alone struct {
	owner string // the package
	what  string
	does  func(ast.Node) bool
}

// monopolies lists the mechanisms of which there is one.
func monopolies() []alone {
	return []alone{
		// A power cut leaves the old file or the new one.
		{"internal/board/durable", "renames and synchronises files", replacesFile},
		// Every API routes requests and reads bearer tokens in one way.
		{"internal/web/kit", "routes requests and reads the Authorization header", routes},
	}
}

// replacesFile reports whether n is os.Rename or a method Sync.
func replacesFile(n ast.Node) bool {
	called, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, _ := called.X.(*ast.Ident)
	return called.Sel.Name == "Rename" && from != nil && from.Name == "os" ||
		called.Sel.Name == "Sync" && (from == nil || from.Name != "durable")
}

// routes reports whether n is http.ServeMux or names the Authorization header.
func routes(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		return n.Kind == token.STRING && strings.EqualFold(strings.Trim(n.Value, "\"`"), "Authorization")
	case *ast.SelectorExpr:
		return n.Sel.Name == "NewServeMux" || n.Sel.Name == "ServeMux" || n.Sel.Name == "DefaultServeMux"
	}
	return false
}

func TestMonopolies(t *testing.T) {
	found := map[string]bool{}
	for _, p := range packages(t) {
		if isTool(p.name()) {
			continue
		}
		for _, name := range p.GoFiles {
			checkMonopolies(t, p.name(), filepath.Join(p.Dir, name), found)
		}
	}
	for _, m := range monopolies() {
		if !found[m.owner] {
			t.Errorf("not even %s %s", m.owner, m.what)
		}
	}
}

// checkMonopolies reports what a file of the package does that another one owns, and
// notes in found what it owns itself.
func checkMonopolies(t *testing.T, name, path string, found map[string]bool) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		for _, m := range monopolies() {
			switch {
			case n == nil || !m.does(n):
			case name == m.owner:
				found[m.owner] = true
			default:
				t.Errorf("%s: only %s %s", set.Position(n.Pos()), m.owner, m.what)
			}
		}
		return true
	})
}
