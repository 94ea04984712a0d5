package httpapi

import (
	"bytes"
	_ "embed"
	"net/http"
	"strings"
)

// openAPI is the OpenAPI 3.1 description of /v1.
//
//go:embed openapi.json
var openAPI []byte

func serveOpenAPI(x *exchange) { x.json(http.StatusOK, openAPI) }

// alive says that the process answers.
func alive(x *exchange) { x.json(http.StatusOK, []byte(`{"status":"ok"}`)) }

// ready says whether doors can be opened, and if not, the codes of the conditions
// that are in the way.
func (a *API) ready(x *exchange) {
	codes := a.health.NotReady()
	if len(codes) == 0 {
		x.json(http.StatusOK, []byte(`{"status":"ready"}`))
		return
	}
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = string(code)
	}
	x.Header().Set("Retry-After", retryAfter(0))
	x.refuse(http.StatusServiceUnavailable, "not ready: "+strings.Join(names, ", "))
}

// writeMetrics gives the metrics as Prometheus text.
func (a *API) writeMetrics(x *exchange) {
	var text bytes.Buffer
	a.scrape.Lock()
	a.metrics.Write(&text)
	a.scrape.Unlock()
	x.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = x.Write(text.Bytes())
}

// serveAdmin hands over to the admin API.
func (a *API) serveAdmin(x *exchange) { a.admin.ServeHTTP(x, x.r) }
