package httpapi_test

import (
	"strings"
	"testing"

	"gatehouse/internal/health"
)

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// A browser gets a page, which runs nothing and loads nothing.
func TestFront(t *testing.T) {
	w := newWorld(t)
	w.setup.open = true
	open := request{method: "GET", path: "/", header: map[string]string{"Accept": browser}}
	got := w.do(open)
	if got.status != 200 || got.header.Get("Content-Type") != "text/html; charset=utf-8" ||
		!strings.HasPrefix(got.header.Get("Content-Security-Policy"), "default-src 'none';") {
		t.Errorf("got %d %v", got.status, got.header)
	}
	for _, part := range []string{
		"<h1>Gatehouse gate</h1>", "is ready", `href="/v1/openapi.json"`, "setup code", "/local/v1/setup",
	} {
		if !strings.Contains(got.body, part) {
			t.Errorf("the page lacks %q:\n%s", part, got.body)
		}
	}
	if strings.Contains(got.body, "<script") || strings.Contains(got.body, "CODE-CODE") {
		t.Errorf("the page has what it must not:\n%s", got.body)
	}
	w.setup.open = false
	w.health.Raise(health.Condition{Code: health.StorageFailing, Severity: health.Fatal})
	if got := w.do(open); strings.Contains(got.body, "setup") || !strings.Contains(got.body, "not ready") {
		t.Errorf("later the page is\n%s", got.body)
	}
	for _, accept := range []string{"", "*/*", "application/json"} {
		w.do(request{method: "GET", path: "/", header: map[string]string{"Accept": accept}}).want(t, 404, message("Not found"))
	}
	w.do(request{method: "POST", path: "/", header: open.header}).want(t, 404, message("Not found"))
}
