package httpapi

import (
	"bytes"
	_ "embed"
	"net/http"
	"strings"

	"gatehouse/internal/web/kit"
)

// openAPI is the OpenAPI 3.1 description of /v1.
//
//go:embed openapi.json
var openAPI []byte

func serveOpenAPI(x *kit.Exchange) error { return x.JSON(http.StatusOK, openAPI) }

// alive reports that the process answers.
func alive(x *kit.Exchange) error { return x.JSON(http.StatusOK, []byte(`{"status":"ok"}`)) }

// ready reports whether doors can be opened, and if not, the codes of the conditions
// that prevent it.
func (a *API) ready(x *kit.Exchange) error {
	codes := a.Health.NotReady()
	if len(codes) == 0 {
		return x.JSON(http.StatusOK, []byte(`{"status":"ready"}`))
	}
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = string(code)
	}
	return unready(x, "not ready: "+strings.Join(names, ", "))
}

// writeMetrics answers with the metrics as Prometheus text.
func (a *API) writeMetrics(x *kit.Exchange) error {
	var text bytes.Buffer
	a.scrape.Lock()
	a.Metrics.Write(&text)
	a.scrape.Unlock()
	x.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = x.Write(text.Bytes()) // the client may have disconnected
	return nil
}
