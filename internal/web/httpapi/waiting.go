package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"gatehouse/internal/health"
)

// Waiting returns the handler of a gateway that cannot start yet: /healthz reports that
// the process lives, /readyz names what prevents the start, with the step that waits for
// the storage, and everything else is 503.
func Waiting(conditions *health.Registry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := http.StatusServiceUnavailable, map[string]string{"message": "The gateway is starting"}
		switch {
		case r.URL.Path == "/healthz":
			status, body = http.StatusOK, map[string]string{"status": "ok"}
		case r.URL.Path == "/readyz":
			body["message"] = notReady(conditions)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if status != http.StatusOK {
			w.Header().Set("Retry-After", retryAfter(0))
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
	})
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
