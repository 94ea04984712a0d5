package httpapi

import (
	_ "embed"
	"log/slog"
	"net/http"
	"strings"

	"gatehouse/internal/health"
	"gatehouse/internal/web/kit"
)

// openAPI and openLocal are the OpenAPI 3.1 descriptions of /v1 and of /local/v1.
var (
	//go:embed openapi.json
	openAPI []byte
	//go:embed local.json
	openLocal []byte
)

// probes returns the routes that every listener has: whether the process lives, and
// whether doors can be opened.
func probes(conditions *health.Registry) []kit.Route {
	ready := func(x *kit.Exchange) error {
		if reason := notReady(conditions); reason != "" {
			return unready(x, reason)
		}
		return x.JSON(http.StatusOK, []byte(`{"status":"ready"}`))
	}
	return []kit.Route{
		{Method: http.MethodGet, Pattern: "/healthz", Serve: kit.Document("application/json", []byte(`{"status":"ok"}`+"\n")), Level: slog.LevelDebug},
		{Method: http.MethodGet, Pattern: "/readyz", Serve: ready, Level: slog.LevelDebug},
	}
}

// Waiting returns the routes of a gateway that cannot start yet: the probes, of which
// /readyz names what prevents the start, with the step that waits for the storage.
// Everything else is 503.
func Waiting(conditions *health.Registry) []kit.Route {
	starting := func(x *kit.Exchange) error { return unready(x, "The gateway is starting") }
	return append(probes(conditions), kit.Route{Pattern: "/", Serve: starting})
}

// notReady names the conditions that keep doors from being opened; "" if there are none.
func notReady(conditions *health.Registry) string {
	var names []string
	why := ""
	for _, c := range conditions.Conditions() {
		if c.Severity != health.Fatal {
			continue
		}
		names = append(names, string(c.Code))
		if c.Code == health.StorageUnresponsive {
			why = ". " + c.Summary
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "not ready: " + strings.Join(names, ", ") + why
}

// unready answers 503 with a sentence, which the log does not need.
func unready(x *kit.Exchange, sentence string) error {
	x.Header().Set("Retry-After", kit.RetryAfter(0))
	return kit.Refuse(http.StatusServiceUnavailable, sentence)
}

// writeMetrics answers with the metrics as Prometheus text.
func (a *API) writeMetrics(x *kit.Exchange) error {
	x.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	a.Metrics.Write(x)
	return nil
}
