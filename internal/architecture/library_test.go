package architecture_test

import (
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// library says who may import what is not ours.
type library struct {
	path     string   // of the package; those below it are meant too
	product  []string // packages that may, in what is shipped; "*" is every one
	anyTest  bool     // whether every test and tool may
	ownTests bool     // whether the tests of the packages in product may
}

// libraries is the table of what is not ours. Every import from outside the
// standard library has a line; of the standard library only what is restricted.
func libraries() []library {
	everywhere := []string{"*"}
	return []library{
		// Each of these is wrapped by the one package that knows its traps.
		{path: "modernc.org/sqlite", product: []string{"internal/record/sqlite", "scripts/bench", "scripts/imagetest"}, ownTests: true},
		{path: "modernc.org/libc", product: []string{"internal/record/sqlite"}},
		{path: "github.com/mochi-mqtt/server", product: []string{"internal/door/broker"}, ownTests: true},
		{path: "github.com/eclipse/paho.mqtt.golang", product: []string{"internal/cloud/mqttclient", "internal/door/stationsim"}, anyTest: true},
		{path: "github.com/golang-jwt/jwt", product: []string{"internal/access", "internal/cloud/api"}, anyTest: true},
		{path: "github.com/VictoriaMetrics/metrics", product: []string{"internal/metric"}, ownTests: true},
		{path: "filippo.io/age", product: []string{"internal/record/backup"}, anyTest: true},
		{path: "github.com/pelletier/go-toml", product: []string{"internal/setup/tomlfile"}},
		{path: "github.com/kardianos/service", product: []string{"internal/install/service"}, ownTests: true},
		{path: "github.com/coreos/go-systemd", product: []string{"internal/board/machine"}, ownTests: true},
		{path: "github.com/spf13/cobra", product: []string{"cmd/gatehouse"}, ownTests: true},
		{path: "github.com/klauspost/compress", product: []string{"internal/install/updatefile"}, ownTests: true},
		{path: "rsc.io/qr", product: []string{"internal/web/adminapi", "cmd/gatehouse"}, anyTest: true},
		{path: "github.com/google/uuid", product: everywhere, anyTest: true},
		{path: "golang.org/x", product: everywhere, anyTest: true},

		// These are for tests and would make the binary larger by megabytes.
		{path: "github.com/chromedp", anyTest: true},
		{path: "github.com/getkin/kin-openapi", anyTest: true},
		{path: "github.com/hanwen/go-fuse", anyTest: true},
		{path: "github.com/rogpeppe/go-internal", anyTest: true},
		{path: "github.com/santhosh-tekuri/jsonschema", anyTest: true},
		{path: "go.uber.org/goleak", anyTest: true},
		{path: "pgregory.net/rapid", anyTest: true},
		{path: "testing", anyTest: true},
		{path: "net/http/httptest", anyTest: true},

		// The standard library, where it is restricted.
		{path: "database/sql", product: []string{"internal/record/sqlite"}, anyTest: true},
		{path: "text/template", anyTest: true},  // costs 2.5 MB of binary
		{path: "html/template", anyTest: true},  // likewise
		{path: "net/http/pprof", anyTest: true}, // adds itself to a mux of the whole process
		{path: "expvar"},                        // likewise
		{path: "math/rand"},                     // math/rand/v2 spreads retries; secrets come from crypto/rand
		{path: "log"},                           // log/slog, injected
		{path: "C"},
	}
}

// unrestricted are packages below a restricted one that are not meant with it.
func unrestricted() []string { return []string{"math/rand/v2", "log/slog"} }

// ruleOf finds the rule for an import, where there is one.
func ruleOf(path string) (library, bool) {
	for _, l := range libraries() {
		if path == l.path || strings.HasPrefix(path, l.path+"/") {
			return l, true
		}
	}
	return library{}, false
}

// isTool reports whether the package is never shipped.
func isTool(name string) bool {
	return strings.HasPrefix(name, "scripts/") || strings.HasPrefix(name, "internal/test/")
}

// allows reports whether the package may import the library; inTest says from
// where.
func (l library) allows(name string, inTest bool) bool {
	if isTool(name) || inTest {
		return l.anyTest || l.ownTests && slices.Contains(l.product, name)
	}
	return slices.Contains(l.product, name) || slices.Contains(l.product, "*")
}

func TestLibraries(t *testing.T) {
	for _, p := range packages(t) {
		for _, path := range p.Imports {
			checkLibrary(t, p.name(), path, false)
		}
		for _, path := range p.testImports() {
			checkLibrary(t, p.name(), path, true)
		}
	}
}

func checkLibrary(t *testing.T, name, path string, inTest bool) {
	t.Helper()
	if path == module || strings.HasPrefix(path, module+"/") || slices.Contains(unrestricted(), path) {
		return
	}
	rule, found := ruleOf(path)
	foreign := strings.Contains(strings.Split(path, "/")[0], ".")
	switch {
	case !found && foreign:
		t.Errorf("%s imports %s, about which the table says nothing", name, path)
	case found && !rule.allows(name, inTest):
		t.Errorf("%s may not import %s (in a test: %t)", name, path, inTest)
	}
}

// What the binary is made of: no library that is for tests, however it comes in.
func TestBinary_noTestLibraries(t *testing.T) {
	forbidden := []string{
		"github.com/chromedp", "github.com/getkin/kin-openapi", "github.com/rogpeppe/go-internal", "go.uber.org/goleak", "pgregory.net/rapid",
		"testing", "net/http/httptest", "net/http/pprof", "expvar", "html/template", module + "/internal/test/gatewaytest", module + "/internal/test/brokertest",
	}
	all := list(t, "list", "-deps", "-json=ImportPath,Standard", "./cmd/gatehouse")
	for _, p := range all {
		for _, path := range forbidden {
			if p.ImportPath == path || strings.HasPrefix(p.ImportPath, path+"/") {
				t.Errorf("the binary contains %s", p.ImportPath)
			}
		}
	}
	if len(all) < 100 {
		t.Errorf("the binary is made of %d packages only: was the right one listed?", len(all))
	}
}

// Cobra imports text/template, and the linker leaves it out as long as nobody sets
// a template of cobra's: see that it does.
func TestBinary_noTemplates(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "gatehouse")
	run(t, "build", "-trimpath", "-buildvcs=false", "-o", binary, "./cmd/gatehouse")
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	symbols, err := file.Symbols()
	if err != nil || !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == "main.main" }) {
		t.Fatalf("the binary names no symbols: %v", err)
	}
	for _, symbol := range []string{
		"text/template.(*state).walk", "html/template.",
		"reflect.Value.MethodByName", // keeps every exported method of every type in the binary
	} {
		if slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return strings.Contains(s.Name, symbol) }) {
			t.Errorf("the binary contains %s", symbol)
		}
	}
}

// The C library in Go that SQLite is translated for must be the very version that
// it was translated for: with another one it has crashed on ARM.
func TestModules_libcOfSQLite(t *testing.T) {
	var sqlite, libc struct{ Version, GoMod string }
	decode(t, run(t, "list", "-m", "-json", "modernc.org/sqlite"), &sqlite)
	decode(t, run(t, "list", "-m", "-json", "modernc.org/libc"), &libc)
	text, err := os.ReadFile(sqlite.GoMod)
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(`(?m)^\s*(?:require )?modernc\.org/libc (\S+)`).FindStringSubmatch(string(text))
	if wanted == nil {
		t.Fatalf("the go.mod of SQLite %s names no libc", sqlite.Version)
	}
	if libc.Version != wanted[1] {
		t.Errorf("SQLite %s needs modernc.org/libc %s, and go.mod takes %s: run go get modernc.org/libc@%s",
			sqlite.Version, wanted[1], libc.Version, wanted[1])
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
