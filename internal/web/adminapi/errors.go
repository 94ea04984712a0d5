package adminapi

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"gatehouse/internal/fault"
)

// Prefix is the path under which the admin API lies.
const Prefix = "/admin/v1"

// statusOf is the one table from kinds of errors to statuses.
func statusOf(kind fault.Kind) int {
	switch kind {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.Unauthenticated:
		return http.StatusUnauthorized
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Throttled:
		return http.StatusTooManyRequests
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Timeout:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// KindOf maps a status of the admin API back to the kind of the error behind it.
// Statuses of requests that are malformed (405, 413, 415) are [fault.Invalid].
func KindOf(status int) fault.Kind {
	for _, kind := range fault.Kinds() {
		if statusOf(kind) == status {
			return kind
		}
	}
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError {
		return fault.Invalid
	}
	return fault.Internal
}

// refusal is an error of HTTP itself, which has a status rather than a kind.
type refusal struct {
	status   int
	sentence string
}

func (r *refusal) Error() string { return r.sentence }

// refuse answers err and, where someone should know, logs it under the pattern of
// its route.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, pattern string, err error) {
	status, body := a.explain(r, pattern, err)
	if after := fault.RetryAfter(err); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, status, body)
}

// explain words err for the caller and counts it.
func (a *API) explain(r *http.Request, pattern string, err error) (status int, body ErrorBody) {
	status, body = statusOf(fault.KindOf(err)), ErrorBody{Message: fault.Sentence(err)}
	if refused, ok := errors.AsType[*refusal](err); ok {
		status, body.Message = refused.status, refused.sentence
	}
	switch {
	case status == http.StatusInternalServerError:
		a.Logger.Error("admin request failed", "route", pattern, "by", actorOf(r.Context()).Name, "error", err)
	case status > http.StatusInternalServerError:
		a.Logger.Warn("admin request could not be done", "route", pattern, "by", actorOf(r.Context()).Name, "error", err)
	}
	a.Metrics.Request(pattern, status)
	return status, body
}

// writeTimeout is how long a peer may take to receive an answer, or one line of a
// stream.
const writeTimeout = 10 * time.Second
