package console_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"gatehouse/internal/metric"
	"gatehouse/internal/web/console"
	"gatehouse/internal/web/kit"
)

// The bounds of the console.
const (
	maxRaw   = 160 << 10 // bytes of all files
	maxDocs  = 14 << 10  // bytes of the page of the API
	maxFirst = 40 << 10  // bytes of the first page and all that it loads, with gzip
	maxLines = 3000      // of ours
)

// newServer returns a server of the console alone.
func newServer(t *testing.T) http.Handler {
	t.Helper()
	routes := console.Routes()
	k := kit.New(kit.Config{
		Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler), Names: func() []string { return []string{"gatehouse.local"} },
	})
	return k.Handler(true, routes)
}

func get(server http.Handler, path string, header ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, "https://gatehouse.local"+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, resp *http.Response) []byte {
	t.Helper()
	var r io.Reader = resp.Body
	if resp.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = unpacked
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRoutes(t *testing.T) {
	server := newServer(t)
	for path, media := range map[string]string{
		"/": "text/html; charset=utf-8", "/console/style.css": "text/css; charset=utf-8",
		"/console/app/main.js": "text/javascript; charset=utf-8", "/console/vendor/preact.js": "text/javascript; charset=utf-8",
		"/console/icon.svg": "image/svg+xml", "/docs": "text/html; charset=utf-8",
	} {
		plain, packed := get(server, path), get(server, path, "Accept-Encoding", "gzip, br")
		if plain.StatusCode != http.StatusOK || plain.Header.Get("Content-Type") != media || plain.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d %v", path, plain.StatusCode, plain.Header)
		}
		if packed.Header.Get("Content-Encoding") != "gzip" || !bytes.Equal(body(t, packed), body(t, plain)) {
			t.Errorf("%s differs when it is compressed", path)
		}
		policy := plain.Header.Get("Content-Security-Policy")
		for _, rule := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, rule) {
				t.Errorf("the policy of %s lacks %s", path, rule)
			}
		}
		tag := plain.Header.Get("ETag")
		if again := get(server, path, "If-None-Match", tag); again.StatusCode != http.StatusNotModified || len(body(t, again)) != 0 {
			t.Errorf("%s: a browser that has %s is answered %d", path, tag, again.StatusCode)
		}
		if other := get(server, path, "If-None-Match", `W/"another"`); other.StatusCode != http.StatusOK {
			t.Errorf("%s: a browser that has another version is answered %d", path, other.StatusCode)
		}
	}
	for _, path := range []string{"/console/", "/console/console.go", "/console/vendor/vendor.json", "/console/app/../console.go", "/index.html"} {
		if resp := get(server, path); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s is answered %d", path, resp.StatusCode)
		}
	}
}

// A page that points a name of its own at the gateway does not get the console.
func TestRoutes_foreignName(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "https://attacker.example/", nil)
	w := httptest.NewRecorder()
	newServer(t).ServeHTTP(w, r)
	if w.Code != http.StatusMisdirectedRequest {
		t.Errorf("answered %d", w.Code)
	}
}

// The libraries are what the registry has, but for the import that the script rewrites:
// scripts/vendor-console writes the sums after it has checked the archives.
func TestVendor(t *testing.T) {
	sums, err := os.ReadFile("vendor/SHA512SUMS")
	if err != nil {
		t.Fatal(err)
	}
	pinned := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		pinned[name] = sum
	}
	server := newServer(t)
	scripts, _ := filepath.Glob("vendor/*.js")
	if len(scripts) != len(pinned) || len(scripts) == 0 {
		t.Errorf("%d scripts, %d sums", len(scripts), len(pinned))
	}
	for _, script := range scripts {
		served := body(t, get(server, "/console/"+filepath.ToSlash(script)))
		if got := fmt.Sprintf("%x", sha512.Sum512(served)); got != pinned[filepath.Base(script)] {
			t.Errorf("%s has the sum %s", script, got)
		}
	}
}

// files calls do with the path and text of each file that is served.
func files(t *testing.T, do func(path, text string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, entry fs.DirEntry, err error) error {
		switch filepath.Ext(path) {
		case ".js", ".css", ".html", ".svg":
			text, err := os.ReadFile(path)
			do(path, string(text))
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What the policy would refuse, or would let a text become a script or a request to
// another host, is not in the console at all.
func TestFiles_nothingUnsafe(t *testing.T) {
	unsafe := regexp.MustCompile(`(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\bstyle=|javascript:|\son[a-z]+="`)
	host := regexp.MustCompile(`(?i)(https?|wss?):|['"(]//`)
	files(t, func(path, text string) {
		if strings.HasPrefix(path, "vendor/") {
			return
		}
		for n, line := range strings.Split(text, "\n") {
			line = strings.ReplaceAll(line, `xmlns="http://www.w3.org/2000/svg"`, "")
			if found := unsafe.FindString(line); found != "" {
				t.Errorf("%s:%d has %q", path, n+1, found)
			}
			if found := host.FindString(line); found != "" {
				t.Errorf("%s:%d names another host: %q", path, n+1, found)
			}
		}
	})
}

func TestFiles_bounds(t *testing.T) {
	raw, docs, lines := 0, 0, 0
	files(t, func(path, text string) {
		if strings.Contains(path, "docs.") { // the page of the API, which the console does not load
			docs += len(text)
		} else {
			raw += len(text)
		}
		if !strings.HasPrefix(path, "vendor/") {
			lines += strings.Count(text, "\n")
		}
	})
	if raw > maxRaw || docs > maxDocs || lines > maxLines {
		t.Errorf("the console has %d bytes, the page of the API %d, both %d lines of ours; more than %d, %d or %d", raw, docs, lines, maxRaw, maxDocs, maxLines)
	}
	t.Logf("%d bytes, %d of the page of the API, %d lines of ours", raw, docs, lines)
}

// The first page is small, and the browser learns from the page itself what to load: the
// modules that main.js imports are all named there.
func TestFirstPage(t *testing.T) {
	server := newServer(t)
	page := string(body(t, get(server, "/")))
	size, loaded := 0, map[string]bool{}
	for _, found := range regexp.MustCompile(`(?:href|src)="(/[^"]*)"`).FindAllStringSubmatch(page, -1) {
		resp := get(server, found[1], "Accept-Encoding", "gzip")
		packed, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v", found[1], resp.StatusCode, err)
		}
		size += len(packed)
		loaded[found[1]] = true
	}
	if size > maxFirst {
		t.Errorf("the first page is %d bytes, more than %d", size, maxFirst)
	}
	t.Logf("%d bytes in %d requests", size, len(loaded)+1)
	imports := regexp.MustCompile(`(?m)^(?:import|export) .*from '([^']+)'`)
	for path := range loaded {
		if !strings.HasSuffix(path, ".js") {
			continue
		}
		for _, found := range imports.FindAllStringSubmatch(string(body(t, get(server, path))), -1) {
			if needed := filepath.Join(filepath.Dir(path), found[1]); !loaded[needed] {
				t.Errorf("%s imports %s, which the page does not name", path, needed)
			}
		}
	}
}

// A start compresses nothing: a writer for each file took 14 MB, which the process kept.
func TestRoutes_memory(t *testing.T) {
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := allocated()
	console.Routes()
	if got := allocated() - before; got > 1<<20 {
		t.Errorf("%d kB are allocated", got>>10)
	}
}
