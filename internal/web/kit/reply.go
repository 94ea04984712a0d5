package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"gatehouse/internal/fault"
)

// retryLater is the Retry-After of an error that has none.
const retryLater = 5 * time.Second

// ErrorBody is the body of every answer that is an error, and the last line of a stream
// that broke off.
type ErrorBody struct {
	Message string `json:"message"`
}

// statusOf is the one table from kinds of errors to statuses. A Timeout is a 503,
// because for the client it is the same: not now, try again.
func statusOf(kind fault.Kind) int {
	return [...]int{
		fault.Internal:        http.StatusInternalServerError,
		fault.Invalid:         http.StatusBadRequest,
		fault.Unauthenticated: http.StatusUnauthorized,
		fault.Forbidden:       http.StatusForbidden,
		fault.NotFound:        http.StatusNotFound,
		fault.Conflict:        http.StatusConflict,
		fault.Throttled:       http.StatusTooManyRequests,
		fault.Unavailable:     http.StatusServiceUnavailable,
		fault.Timeout:         http.StatusServiceUnavailable,
	}[kind]
}

// KindOf maps a status back to the kind of the error behind it. Statuses of requests
// that are malformed (405, 413, 415) are [fault.Invalid].
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

// refusal is an error of the request as HTTP, with a status that no kind of error has.
type refusal struct {
	status  int
	message string
}

// Error implements error.
func (r *refusal) Error() string { return r.message }

// Refuse returns an error that is answered with a status and a message.
func Refuse(status int, message string) error { return &refusal{status, message} }

// fail answers with an error. If something has been answered already, it marks the
// answer as broken.
func (x *Exchange) fail(err error) {
	if x.status != 0 {
		x.cause, x.broken = err, true
		return
	}
	_ = x.awaitTurn() // the client may have gone
	if r, ok := errors.AsType[*refusal](err); ok {
		x.refuse(r.status, r.message)
		return
	}
	if errors.Is(err, context.Canceled) && x.Req.Context().Err() != nil {
		err = fault.New(fault.Unavailable, "Request cancelled") // by the client: not our failure
	} else {
		x.cause = err
	}
	status := statusOf(fault.KindOf(err))
	switch status {
	case http.StatusUnauthorized:
		x.Header().Set("WWW-Authenticate", "Bearer") // RFC 9110, 15.5.2: in every 401
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		x.Header().Set("Retry-After", RetryAfter(fault.RetryAfter(err)))
	}
	x.refuse(status, fault.Sentence(err))
}

// RetryAfter returns whole seconds, rounded up, at least one; 5 for no duration.
func RetryAfter(d time.Duration) string {
	if d <= 0 {
		d = retryLater
	}
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// refuse answers with an error body.
func (x *Exchange) refuse(status int, message string) {
	_ = x.Encode(status, ErrorBody{message}) // which always encodes
}

// JSON answers with a body that is JSON already, and adds the newline at the end if there
// is none. It returns nil: a client that has disconnected is not an error.
func (x *Exchange) JSON(status int, body []byte) error {
	if len(body) == 0 || body[len(body)-1] != '\n' {
		body = append(body, '\n')
	}
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	_, _ = x.w.Write(body)
	return nil
}

// Document returns a handler that answers with a document of that content type.
func Document(kind string, body []byte) Handler {
	return func(x *Exchange) error {
		x.Header().Set("Content-Type", kind)
		x.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = x.Write(body) // the client may have disconnected
		return nil
	}
}

// Encode answers with a value as JSON; a 204 has no body.
func (x *Exchange) Encode(status int, value any) error {
	if status == http.StatusNoContent {
		x.WriteHeader(status)
		return nil
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	return x.JSON(status, body.Bytes())
}
