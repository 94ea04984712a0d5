package httpapi

import (
	"log/slog"
	"net/http"
	"strings"

	"gatehouse/internal/health"
	"gatehouse/internal/web/kit"
)

// Waiting returns the routes of a gateway that cannot start yet: /healthz reports that
// the process lives, /readyz names what prevents the start, with the step that waits for
// the storage, and everything else is 503.
func Waiting(conditions *health.Registry) []kit.Route {
	return []kit.Route{
		{Method: http.MethodGet, Pattern: "/healthz", Serve: alive, Level: slog.LevelDebug},
		{Method: http.MethodGet, Pattern: "/readyz", Serve: func(x *kit.Exchange) error { return unready(x, notReady(conditions)) }},
		{Pattern: "/", Serve: func(x *kit.Exchange) error { return unready(x, "The gateway is starting") }},
	}
}

// unready answers 503 with a sentence, which the log does not need.
func unready(x *kit.Exchange, sentence string) error {
	x.Header().Set("Retry-After", kit.RetryAfter(0))
	return kit.Refuse(http.StatusServiceUnavailable, sentence)
}

// notReady words why the gateway cannot start.
func notReady(conditions *health.Registry) string {
	var names, why []string
	for _, c := range conditions.Conditions() {
		if c.Severity != health.Fatal {
			continue
		}
		names = append(names, string(c.Code))
		if c.Code == health.StorageUnresponsive {
			why = append(why, ". "+c.Summary)
		}
	}
	return "not ready: " + strings.Join(names, ", ") + strings.Join(why, "")
}
