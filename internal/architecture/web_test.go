package architecture_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// webKit is the only package that routes requests and reads the Authorization header.
const webKit = "internal/web/kit"

// Requests are routed, and bearer tokens read, in one way on every API.
func TestWebKit(t *testing.T) {
	found := false
	for _, p := range packages(t) {
		if isTool(p.name()) {
			continue
		}
		for _, name := range p.GoFiles {
			for _, place := range routing(t, filepath.Join(p.Dir, name)) {
				if p.name() != webKit {
					t.Errorf("%s: that is for package kit", place)
				}
				found = true
			}
		}
	}
	if !found {
		t.Error("even package kit routes nothing")
	}
}

// routing returns the places in a file that use http.ServeMux or name the Authorization
// header.
func routing(t *testing.T, path string) (places []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, isLiteral := n.(*ast.BasicLit)
		selector, isSelector := n.(*ast.SelectorExpr)
		if isLiteral && literal.Kind == token.STRING && strings.EqualFold(strings.Trim(literal.Value, "\"`"), "Authorization") ||
			isSelector && (selector.Sel.Name == "NewServeMux" || selector.Sel.Name == "ServeMux" || selector.Sel.Name == "DefaultServeMux") {
			places = append(places, strings.TrimPrefix(set.Position(n.Pos()).String(), root))
		}
		return true
	})
	return places
}
