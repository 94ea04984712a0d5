// Package console is the web console of the gateway: static files that a browser runs as
// a client of /admin/v1 and /local/v1, and their routes. It knows nothing of doors,
// accounts or sessions, and has no right that another client of these APIs lacks.
//
// The page at / loads modules and a stylesheet from /console; its own addresses are
// fragments (#/doors), so that the server knows no page by name. Each file is compressed
// once, when it is first asked for. They name no other host, and the policy of the page lets
// a browser run nothing and reach nothing besides this gateway.
//
// The page at /docs draws the OpenAPI descriptions that the gateway serves.
//
// vendor has preact and htm as npm has them; scripts/vendor-console writes it.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"

	"gatehouse/internal/web/kit"
)

//go:embed index.html docs.html style.css docs.css icon.svg app/*.js vendor/*.js
var files embed.FS

// policy is the Content-Security-Policy of the console. Trusted types have a browser
// refuse to turn any text into a script, whatever a mistake in the console does.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// file is one file of the console.
type file struct {
	content    []byte
	compressed func() []byte // with gzip
	media      string        // its Content-Type
	tag        string        // its ETag, weak because it is the same for both encodings (RFC 9110, 8.8.1)
}

// Routes returns the route table of the console: the pages at / and /docs, and their files
// under /console.
func Routes() (routes []kit.Route) {
	_ = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, _ error) error { // what is embedded can be read
		if entry.IsDir() {
			return nil
		}
		pattern := "/console/" + name
		switch name {
		case "index.html":
			pattern = "/{$}"
		case "docs.html":
			pattern = "/docs"
		}
		routes = append(routes, kit.Route{Method: http.MethodGet, Pattern: pattern, Guard: kit.Addressed, Serve: newFile(name).serve, Level: slog.LevelDebug})
		return nil
	})
	return routes
}

func newFile(name string) *file {
	content, _ := files.ReadFile(name)
	sum := sha256.Sum256(content)
	return &file{
		content: content, compressed: sync.OnceValue(func() []byte { return compress(content) }), tag: `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
		media: map[string]string{
			".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
			".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
		}[path.Ext(name)],
	}
}

func compress(content []byte) []byte {
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // a level that there is
	_, _ = w.Write(content)                                    // in memory
	_ = w.Close()
	return packed.Bytes()
}

// serve answers with the file, or that the browser has it already: a page of one version
// never meets a module of another.
func (f *file) serve(x *kit.Exchange) error {
	h := x.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("ETag", f.tag)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(x.Req.Header.Get("If-None-Match"), f.tag) {
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := f.content
	if strings.Contains(x.Req.Header.Get("Accept-Encoding"), "gzip") {
		body = f.compressed()
		h.Set("Content-Encoding", "gzip")
	}
	return kit.Document(f.media, body)(x)
}
