package httpapi_test

import (
	"net/http/httptest"
	"testing"

	"gatehouse/internal/web/httpapi"
)

// A page that points its own name to the gateway (DNS rebinding) reaches no route of a plain
// listener, with or without a cookie.
func TestRoutes_foreignHost(t *testing.T) {
	w := newWorld(t)
	routes := w.api.Routes(httpapi.Options{Metrics: true})
	for _, route := range routes {
		for host, refused := range map[string]bool{
			"evil.example": true, "evil.example:8080": true, "localhost.evil.example": true, "127.0.0.1.evil.example": true,
			"127.0.0.1:8080": false, "[::1]:8080": false, "localhost": false, "gate.local": false,
		} {
			req := httptest.NewRequestWithContext(t.Context(), route.Method, "/", nil)
			req.URL.Path, req.Host = route.Pattern, host
			req.Header.Set("Authorization", "Bearer "+accessToken)
			if route.Method == "" || route.Pattern == "/local/v1/watch" || route.Method == "GET" && len(route.Pattern) > 7 && route.Pattern[len(route.Pattern)-7:] == "/events" {
				continue
			}
			rec := httptest.NewRecorder()
			w.web.Handler(false, routes).ServeHTTP(rec, req)
			if got := rec.Code == 421; got != refused {
				t.Errorf("%s %s at %s: %d", route.Method, route.Pattern, host, rec.Code)
			}
		}
	}
}
