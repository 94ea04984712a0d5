package adminapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// request is a request of an administrator.
type request struct {
	*http.Request
	by       site.Actor
	start    time.Time // when it came in
	exchange exchange  // nil on the socket, and where the route does not use it
}

// exchange is one request at the web door, as the server there handles it. The
// [http.ResponseWriter] of package httpapi implements it. It must not be used after the
// request.
type exchange interface {
	// Opening marks the request as one that opens a door.
	Opening()
	// Waiting reports whether the client still waits for the answer.
	Waiting() bool
	// Streaming marks the request as a stream.
	Streaming()
}

func newRequest(w http.ResponseWriter, r *http.Request) *request {
	x, _ := w.(exchange)
	return &request{Request: r, by: actorOf(r.Context()), start: time.Now(), exchange: x}
}

// skipBody reads and discards a body that has no meaning. While a body is unread,
// net/http does not notice that the client has disconnected.
func (r *request) skipBody() error {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return unreadable(err)
	}
	return nil
}

// email gives the e-mail address of the path; the services say what is wrong
// with it.
func (r *request) email() string { return r.PathValue("email") }

// station gives the station of the path.
func (r *request) station() (site.StationID, error) {
	id, err := site.ParseStationID(r.PathValue("station"))
	if err != nil {
		return 0, fault.New(fault.Invalid, err.Error())
	}
	return id, nil
}

// body reads the body as one JSON object with no field that T does not have.
func body[T any](r *request) (v T, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return v, &refusal{http.StatusUnsupportedMediaType, "Send the body as application/json"}
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return v, unreadable(err)
	}
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' || !utf8.Valid(data) {
		return v, fault.New(fault.Invalid, "The body must be a JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		return v, malformed(err)
	}
	if decoder.InputOffset() != int64(len(data)) {
		return v, fault.New(fault.Invalid, "Something follows the JSON object in the body")
	}
	return v, nil
}

func unreadable(err error) error {
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is too large: at most %d KiB", e.Limit>>10)}
	}
	return fault.Wrap(fault.Invalid, "The body ended early", err)
}

// malformed words what is wrong with a body. It never repeats a value that may be
// a secret.
func malformed(err error) error {
	const unknown = "json: unknown field " // the decoder has no type for this error
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(e.Value, " ") // "number 12" names the value
		return fault.New(fault.Invalid, fmt.Sprintf("%q cannot be a %s", e.Field, kind))
	}
	if field, ok := strings.CutPrefix(err.Error(), unknown); ok {
		return fault.New(fault.Invalid, "Unknown field "+clip(field))
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fault.New(fault.Invalid, fmt.Sprintf("The body is not valid JSON: see byte %d", e.Offset))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(fault.Invalid, "The body is not valid JSON: it ends early")
	}
	if e, ok := errors.AsType[*time.ParseError](err); ok {
		return fault.New(fault.Invalid, fmt.Sprintf("%q is not a time: write it like 2026-01-01T00:00:00Z", clip(strings.Trim(e.Value, `"`))))
	}
	return fault.New(fault.Invalid, clip(err.Error())) // of hours
}

// clip shortens a text from outside.
func clip(text string) string {
	const most = 120
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// writeJSON answers; nothing of it may be kept by anyone on the way.
func writeJSON(w http.ResponseWriter, status int, answer any) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(answer) // whoever left needs no answer
}
