package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"gatehouse/internal/fault"
)

// retryLater is the Retry-After of an error that does not say when to come back.
const retryLater = 5 * time.Second

// statusOf is the one table from kinds of errors to statuses. A Timeout is a 503,
// because for the client it is the same: not now, try again.
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
	case fault.Unavailable, fault.Timeout:
		return http.StatusServiceUnavailable
	case fault.Internal:
		return http.StatusInternalServerError
	default:
		return http.StatusInternalServerError
	}
}

// refusal is an error of the request as HTTP, with a status that no kind of error
// has.
type refusal struct {
	status  int
	message string
}

// Error implements error.
func (r *refusal) Error() string { return r.message }

// fail answers with an error.
func (x *exchange) fail(err error) {
	if r, ok := errors.AsType[*refusal](err); ok {
		x.refuse(r.status, r.message)
		return
	}
	if errors.Is(err, context.Canceled) && x.r.Context().Err() != nil {
		err = fault.New(fault.Unavailable, "Request cancelled") // by the client: nobody's fault
	} else {
		x.cause = err
	}
	status := statusOf(fault.KindOf(err))
	switch status {
	case http.StatusUnauthorized:
		x.Header().Set("WWW-Authenticate", "Bearer") // RFC 9110, 15.5.2: in every 401
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		x.Header().Set("Retry-After", retryAfter(fault.RetryAfter(err)))
	}
	x.refuse(status, fault.Sentence(err))
}

// retryAfter gives whole seconds, rounded up, at least one.
func retryAfter(d time.Duration) string {
	if d <= 0 {
		d = retryLater
	}
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// refuse answers with an error body.
func (x *exchange) refuse(status int, message string) {
	x.buf = append(x.buf[:0], `{"message":`...)
	x.buf = appendText(x.buf, message)
	x.buf = append(x.buf, '}')
	x.json(status, x.buf)
}

// json answers with a body that is JSON already.
func (x *exchange) json(status int, body []byte) {
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	_, _ = x.w.Write(body) // a client that has gone is nobody's error
}
