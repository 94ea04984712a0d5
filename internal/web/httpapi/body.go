package httpapi

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"gatehouse/internal/fault"
)

const (
	// maxBody is the largest request body, in bytes (contract, section 1).
	maxBody = 16 << 10
	// maxDepth is how deeply the JSON of a body may nest; ours nests once.
	maxDepth = 32
)

// fields are the fields of a body by their exact names; of a repeated one, the last.
type fields map[string]json.RawMessage

// readFields reads the body as one JSON object; given is false where there is none.
func (x *exchange) readFields() (f fields, given bool, err error) {
	if x.r.ContentLength > maxBody {
		return nil, false, errTooLarge()
	}
	data, err := io.ReadAll(io.LimitReader(x.r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, false, fault.New(fault.Invalid, "The body did not arrive whole")
	case len(data) == 0:
		return nil, false, nil
	case !isJSON(x.r.Header):
		return nil, true, &refusal{http.StatusUnsupportedMediaType, "Content-Type must be application/json"}
	case len(data) > maxBody:
		return nil, true, errTooLarge()
	}
	f, err = decodeFields(data)
	return f, true, err
}

// skipBody reads and discards a body that has no meaning. While a body is unread,
// net/http does not notice that the client has disconnected (see
// [http.Request.Context]).
func (x *exchange) skipBody() error {
	switch {
	case x.r.Body == http.NoBody:
		return nil
	case x.r.ContentLength > maxBody:
		return errTooLarge()
	}
	n, err := io.Copy(io.Discard, io.LimitReader(x.r.Body, maxBody+1))
	switch {
	case err != nil:
		return fault.New(fault.Invalid, "The body did not arrive whole")
	case n > maxBody:
		return errTooLarge()
	}
	return nil
}

func errTooLarge() error {
	return &refusal{http.StatusRequestEntityTooLarge, "The body is too large: 16 KiB at most"}
}

// isJSON reports whether the content type is JSON, which is always UTF-8 (RFC 8259,
// 8.1).
func isJSON(h http.Header) bool {
	if len(h["Content-Type"]) != 1 {
		return false
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset, stated := params["charset"]
	return err == nil && kind == "application/json" && (!stated || strings.EqualFold(charset, "utf-8"))
}

// decodeFields takes exactly one JSON object in UTF-8, with nothing before or behind.
func decodeFields(data []byte) (fields, error) {
	errMalformed := fault.New(fault.Invalid, "The body is not a JSON object")
	if !utf8.Valid(data) || nesting(data) > maxDepth {
		return nil, errMalformed
	}
	var f fields
	if err := json.Unmarshal(data, &f); err != nil || f == nil { // nil: the body was null
		return nil, errMalformed
	}
	return f, nil
}

// nesting gives the depth of JSON, without checking that it is JSON.
func nesting(data []byte) int {
	depth, deepest, quoted, escaped := 0, 0, false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// text gives a field that must be a string; given is false where it is missing,
// null or empty.
func (f fields) text(name string) (value string, given bool, err error) {
	raw, ok := f[name]
	if !ok {
		return "", false, nil
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return "", false, fault.New(fault.Invalid, "The field "+name+" must be a string")
	}
	return value, value != "", nil
}

// need is text for a field without which the request means nothing.
func (f fields) need(name string) (string, error) {
	value, given, err := f.text(name)
	if err == nil && !given {
		err = fault.New(fault.Invalid, "The field "+name+" is missing")
	}
	return value, err
}
