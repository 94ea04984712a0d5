package architecture_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the path of the product's module.
const module = "gatehouse"

// root is the root of the tree.
const root = "../.."

// listed is a package, as go list tells of it.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool

	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// name is the path within the module: "internal/site".
func (p listed) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// testImports is what its tests import.
func (p listed) testImports() []string { return slices.Concat(p.TestImports, p.XTestImports) }

// testFiles returns the paths of the files of its tests.
func (p listed) testFiles() []string {
	var paths []string
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		paths = append(paths, filepath.Join(p.Dir, name))
	}
	return paths
}

// product has every package of the product, once one of the tests has asked for them.
var product struct { //nolint:gochecknoglobals // go list takes seconds
	sync.Once
	packages []listed
}

// packages lists every package of the product.
func packages(t *testing.T) []listed {
	t.Helper()
	product.Do(func() {
		product.packages = list(t, "list", "-tags", "board", "-json", "./...")
		for _, p := range product.packages {
			touch(t, p)
		}
	})
	if len(product.packages) < 10 {
		t.Fatalf("only %d packages were found", len(product.packages))
	}
	return product.packages
}

// touch looks at every file of the package: so go test knows that a change of it
// makes a cached result worthless.
func touch(t *testing.T, p listed) {
	t.Helper()
	for _, name := range slices.Concat([]string{""}, p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
		if _, err := os.Stat(filepath.Join(p.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// list runs go list with JSON output.
func list(t *testing.T, args ...string) []listed {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(run(t, args...)))
	var all []listed
	for {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// run runs the go command in the root and returns what it prints.
func run(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return out
}
