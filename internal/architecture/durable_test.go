package architecture_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// atomicWriter is the only package that renames files and synchronises them.
const atomicWriter = "internal/board/durable"

// A file is replaced in one way, so that a power cut leaves the old or the new one.
func TestDurable(t *testing.T) {
	found := false
	for _, p := range packages(t) {
		if isTool(p.name()) {
			continue
		}
		for _, name := range p.GoFiles {
			for _, place := range renames(t, filepath.Join(p.Dir, name)) {
				if p.name() != atomicWriter {
					t.Errorf("%s: call package durable", place)
				}
				found = true
			}
		}
	}
	if !found {
		t.Error("even package durable renames nothing")
	}
}

// renames returns the places in a file that call os.Rename or a method Sync.
func renames(t *testing.T, path string) (places []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		called, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		from, _ := called.X.(*ast.Ident)
		if called.Sel.Name == "Rename" && from != nil && from.Name == "os" ||
			called.Sel.Name == "Sync" && (from == nil || from.Name != "durable") {
			places = append(places, strings.TrimPrefix(set.Position(n.Pos()).String(), root))
		}
		return true
	})
	return places
}
