package site_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"gatehouse/internal/site"
)

// Every kind that the source declares is in the list, so that records of it can be
// asked for.
func TestKinds_complete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "record.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "Kind" {
			return true
		}
		declared++
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(site.Kinds(), site.Kind(name)) {
			t.Errorf("Kinds lacks %q", name)
		}
		return true
	})
	if declared != len(site.Kinds()) {
		t.Errorf("%d kinds are declared, Kinds lists %d", declared, len(site.Kinds()))
	}
}
