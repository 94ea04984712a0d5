package architecture_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// No verdict depends on how fast a machine is, and none is missing: tests wait for a
// condition with package await, or in the virtual time of testing/synctest, and only
// package need skips one.
func TestHabits(t *testing.T) {
	files := 0
	for _, p := range packages(t) {
		s := newSuite()
		paths := p.testFiles()
		if wingOf(p.name()) == "internal/test" && p.name() != "internal/test/await" && p.name() != "internal/test/need" {
			for _, name := range p.GoFiles {
				paths = append(paths, filepath.Join(p.Dir, name))
			}
		}
		for _, path := range paths {
			files++
			s.add(t, path, nil)
		}
		for _, complaint := range s.complaints() {
			t.Error(complaint)
		}
	}
	if files < 10 {
		t.Errorf("only %d files were looked at", files)
	}
}

// suite is the tests of one package.
type suite struct {
	set   *token.FileSet
	files []*ast.File
}

func newSuite() *suite { return &suite{set: token.NewFileSet()} }

func (s *suite) add(t *testing.T, path string, source any) {
	t.Helper()
	file, err := parser.ParseFile(s.set, path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	s.files = append(s.files, file)
}

// functions returns every function of the suite.
func (s *suite) functions() []*ast.FuncDecl {
	var all []*ast.FuncDecl
	for _, file := range s.files {
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Body != nil {
				all = append(all, f)
			}
		}
	}
	return all
}

// complaints lists what tests should not do.
func (s *suite) complaints() []string {
	fake, marked := s.inBubbles(), s.markedLines()
	var found []string
	for _, f := range s.functions() {
		eachCall(f, func(from, name string, pos token.Pos) {
			at := s.set.Position(pos)
			switch {
			case measuresTime(from, name) && !fake[f.Name.Name] && !marked[line{at.Filename, at.Line}]:
				found = append(found, fmt.Sprintf("%s: %s.%s in real time", at, from, name))
			case from == "testing" && name == "Short":
				found = append(found, fmt.Sprintf("%s: there are no short tests", at))
			}
		})
		for _, pos := range skips(f, nil) {
			found = append(found, fmt.Sprintf("%s: a test is skipped", s.set.Position(pos)))
		}
	}
	return found
}

// measuresTime reports whether a call sleeps, bounds a wait or measures how long something
// took. A ticker that only sets the pace of an attack judges nothing.
func measuresTime(from, name string) bool {
	switch from {
	case "time":
		return slices.Contains([]string{"Sleep", "After", "AfterFunc", "NewTimer", "Since", "Until"}, name)
	case "context":
		return slices.Contains([]string{"WithTimeout", "WithDeadline"}, name)
	case "net":
		return name == "DialTimeout"
	}
	return false
}

// inBubbles names the functions that use testing/synctest, themselves or through
// another function of the suite.
func (s *suite) inBubbles() map[string]bool {
	fake := make(map[string]bool)
	for grown := true; grown; {
		grown = false
		for _, f := range s.functions() {
			eachCall(f, func(from, name string, _ token.Pos) {
				if (from == "synctest" || from == "" && fake[name]) && !fake[f.Name.Name] {
					fake[f.Name.Name], grown = true, true
				}
			})
		}
	}
	return fake
}

// line is a line of a file.
type line struct {
	file   string
	number int
}

// markedLines returns the lines whose comment says that they run in a bubble of
// testing/synctest, where that cannot be seen, or after "real time:" why no machine is too
// slow for them.
func (s *suite) markedLines() map[line]bool {
	marked := make(map[line]bool)
	for _, file := range s.files {
		for _, group := range file.Comments {
			if text := group.Text(); strings.Contains(text, "bubble") || strings.Contains(text, "real time: ") {
				at := s.set.Position(group.Pos())
				marked[line{at.Filename, at.Line}] = true
			}
		}
	}
	return marked
}

// eachCall visits the calls of "name" and "from.name" within a node.
func eachCall(node ast.Node, visit func(from, name string, pos token.Pos)) {
	ast.Inspect(node, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch called := call.Fun.(type) {
		case *ast.Ident:
			visit("", called.Name, call.Pos())
		case *ast.SelectorExpr:
			if from, ok := called.X.(*ast.Ident); ok {
				visit(from.Name, called.Sel.Name, call.Pos())
			}
		}
		return true
	})
}

// skips finds where a test is skipped: Skip of a parameter of package testing.
// (The Skip of a parameter of rapid only asks for another example.)
func skips(node ast.Node, tests []string) []token.Pos {
	var found []token.Pos
	ast.Inspect(node, func(n ast.Node) bool {
		if n == node {
			return true
		}
		switch n := n.(type) {
		case *ast.FuncLit:
			found = append(found, skips(n, tests)...)
			return false
		case *ast.FuncType:
			tests = rename(tests, n)
		case *ast.SelectorExpr:
			from, ok := n.X.(*ast.Ident)
			if ok && slices.Contains(tests, from.Name) && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, n.Sel.Name) {
				found = append(found, n.Pos())
			}
		}
		return true
	})
	return found
}

// rename returns the names that stand for a test within a function of that type,
// where tests are those around it.
func rename(tests []string, f *ast.FuncType) []string {
	tests = slices.Clone(tests)
	for _, parameter := range f.Params.List {
		for _, name := range parameter.Names {
			tests = slices.DeleteFunc(tests, func(s string) bool { return s == name.Name })
			if isTest(parameter.Type) {
				tests = append(tests, name.Name)
			}
		}
	}
	return tests
}

// isTest reports whether the type is one of package testing.
func isTest(kind ast.Expr) bool {
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	selector, ok := kind.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := selector.X.(*ast.Ident)
	return ok && from.Name == "testing"
}

func TestSuite_complaints(t *testing.T) {
	for _, test := range []struct{ body, want string }{
		{"time.Sleep(1)", "time.Sleep in real time"},
		{"go func() { time.Sleep(1) }()", "time.Sleep in real time"},
		{"<-time.After(1)", "time.After in real time"},
		{"if time.Since(began) > 1 { t.Fail() }", "time.Since in real time"},
		{"context.WithTimeout(ctx, 1)", "context.WithTimeout in real time"},
		{"time.Sleep(1) // of the bubble", ""},
		{"time.Sleep(1) // real time: nothing waits for it", ""},
		{"time.Sleep(1); synctest.Wait()", ""},
		{"synctest.Test(t, func(t *testing.T) { time.Sleep(1) })", ""},
		{"bubble(func() { time.Sleep(1) })", ""},
		{"t.Skip()", "a test is skipped"},
		{"t.Run(x, func(u *testing.T) { if x { u.Skipf(x) } })", "a test is skipped"},
		{"func() { t.SkipNow() }()", "a test is skipped"},
		{"rapid.Check(t, func(t *rapid.T) { t.Skip() })", ""},
		{"if testing.Short() { return }", "there are no short tests"},
		{"scanner.Skip(); clock.Sleep(); await.Until(t, x, y)", ""},
	} {
		s := newSuite()
		s.add(t, "x_test.go", "package x\nfunc bubble(f func()) { synctest.Test(nil, nil) }\nfunc TestX(t *testing.T) {\n"+test.body+"\n}")
		got := strings.Join(s.complaints(), "\n")
		if got != test.want && !strings.HasSuffix(got, ": "+test.want) || test.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", test.body, got, test.want)
		}
	}
}
