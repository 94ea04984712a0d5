package httpapi_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
)

// The plain port leads to where the client asked for, on HTTPS, and nowhere else.
func TestAPI_Guide(t *testing.T) {
	w := newAPI(t, slog.LevelDebug)
	const token = "token-of-a-station-in-the-path"
	for _, test := range []struct {
		port, host, method, target string
		status                     int
		location                   string
	}{
		{"443", "gate.local", "GET", "/v1/stations/" + token, 308, "https://gate.local/v1/stations/" + token},
		{"443", "gate.local:80", "HEAD", "/?a=b", 308, "https://gate.local/?a=b"},
		{"8443", "192.0.2.7", "GET", "/", 308, "https://192.0.2.7:8443/"},
		{"443", "[2001:db8::1]:80", "GET", "/x", 308, "https://[2001:db8::1]/x"},
		{"8443", "[2001:db8::1]", "GET", "/x", 308, "https://[2001:db8::1]:8443/x"},
		{"443", "gate.local", "POST", "/v1/auth/login", 403, ""},
		{"443", "evil.example/..", "GET", "/", 421, ""},
		{"443", "", "GET", "/", 404, ""},
		{"443", "user@evil.example", "GET", "/", 421, ""},
		{"443", "gate.local", "GET", "//evil.example/", 404, ""},
		{"443", "gate.local", "GET", "/healthz", 200, ""},
		{"443", "gate.local", "GET", "/readyz", 200, ""},
		{"443", "gate.local", "GET", "/metrics", 308, "https://gate.local/metrics"},
		{"443", "gate.local", "GET", "/admin/v1/status", 308, "https://gate.local/admin/v1/status"},
	} {
		handler := w.web.Handler(false, w.api.Guide(test.port))
		req := httptest.NewRequest(test.method, test.target, strings.NewReader("{}"))
		req.Host = test.host
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, req)
		if answer.Code != test.status || answer.Header().Get("Location") != test.location {
			t.Errorf("%s %s at %q: %d %q, want %d %q", test.method, test.target, test.host,
				answer.Code, answer.Header().Get("Location"), test.status, test.location)
		}
	}
	if strings.Contains(w.logs.String(), token) {
		t.Error("a token of a path stands in the log")
	}
}
