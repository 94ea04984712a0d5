package kit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// MaxBody is the largest body of a request, in bytes, unless its route allows more
// (contract, section 1).
const MaxBody = 16 << 10

// maxKey is the largest Idempotency-Key, in bytes.
const maxKey = 255

// fields are the fields of a body by their exact names.
type fields map[string]json.RawMessage

// readBody reads the body as one JSON object, or discards it if the route has no use for
// it. While a body is unread, net/http does not notice that the client has disconnected
// (see [http.Request.Context]). The body of a GET is left alone: that request would count
// as one that is being worked on, while its client need not take the answer.
func (x *Exchange) readBody(rt *Route) error {
	x.most = cmp.Or(rt.MaxBody, MaxBody)
	switch {
	case x.Req.ContentLength > x.most:
		return errTooLarge(x.most)
	case rt.Method == http.MethodGet, rt.Method == "", rt.Upload:
		return nil
	}
	data, err := x.receive(x.most)
	switch {
	case err != nil:
		return err
	case !rt.JSON, len(data) == 0:
		return nil
	case !isJSON(x.Req.Header):
		return Refuse(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	}
	return x.Req.setBody(data)
}

// receive returns a body of at most that many bytes.
func (x *Exchange) receive(most int64) ([]byte, error) {
	if x.Req.Body == nil || x.Req.Body == http.NoBody {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(x.Req.Body, most+1))
	switch {
	case err != nil:
		return nil, fault.New(fault.Invalid, "The body did not arrive whole")
	case int64(len(data)) > most:
		return nil, errTooLarge(most)
	}
	return data, nil
}

func errTooLarge(most int64) error {
	return Refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is too large: %d KiB at most", most>>10))
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

// setBody takes exactly one JSON object in UTF-8, with nothing before or after it.
func (r *Request) setBody(data []byte) error {
	if !utf8.Valid(data) || json.Unmarshal(data, &r.fields) != nil || r.fields == nil { // nil: the body was null
		return fault.New(fault.Invalid, "The body is not a JSON object")
	}
	r.body = data
	return checkNames(json.NewDecoder(bytes.NewReader(data)), nil)
}

// HasBody reports whether the request has a JSON object.
func (r *Request) HasBody() bool { return r.body != nil }

// Text returns a field that must be a string, "" if it is missing or null.
func (r *Request) Text(name string) (value string, err error) {
	raw, ok := r.fields[name]
	if ok && json.Unmarshal(raw, &value) != nil {
		return "", fault.New(fault.Invalid, "The field "+name+" must be a string")
	}
	return value, nil
}

// Need returns fields that must be strings and not empty, in the order of names.
func (r *Request) Need(names ...string) ([]string, error) {
	values := make([]string, len(names))
	for i, name := range names {
		value, err := r.Text(name)
		if err == nil && value == "" {
			err = fault.New(fault.Invalid, "The field "+name+" is missing")
		}
		if err != nil {
			return nil, err
		}
		values[i] = value
	}
	return values, nil
}

// Decode returns the body as a T, a struct. Unlike [Request.Need] it takes no field that
// T does not have: where one is misspelt, an administrator gets less than was asked for.
func Decode[T any](r *Request) (v T, err error) {
	if !r.HasBody() {
		return v, fault.New(fault.Invalid, "The body is missing: send a JSON object")
	}
	if err := checkNames(json.NewDecoder(bytes.NewReader(r.body)), reflect.TypeFor[T]()); err != nil {
		return v, err
	}
	if err := json.Unmarshal(r.body, &v); err != nil {
		return v, unfit(err)
	}
	return v, nil
}

// checkNames reads one value of a valid JSON text. It returns an error if an object in it
// repeats a field, which encoding/json would merge, or has a field that t does not have
// under exactly that name, which encoding/json would match in another case. A nil t takes
// every name. A value of a wrong type is left to encoding/json.
func checkNames(d *json.Decoder, t reflect.Type) error {
	token, _ := d.Token()
	object := token == json.Delim('{')
	if !object && token != json.Delim('[') {
		return nil
	}
	known, seen := fieldsOf(t), make(map[string]bool)
	for d.More() {
		if object {
			token, _ := d.Token()
			name, _ := token.(string)
			field, ok := known[name]
			switch {
			case seen[name]:
				return fault.New(fault.Invalid, fmt.Sprintf("The field %q is repeated", site.Clip(name)))
			case known != nil && !ok:
				return fault.New(fault.Invalid, fmt.Sprintf("Unknown field %q", site.Clip(name)))
			}
			seen[name], t = true, field
		}
		if err := checkNames(d, t); err != nil {
			return err
		}
	}
	_, _ = d.Token() // its end
	return nil
}

// fieldsOf returns the types of the JSON fields by their names, of a struct or of a
// pointer to or a slice of one; nil for any other type.
func fieldsOf(t reflect.Type) (known map[string]reflect.Type) {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			if known == nil {
				known = make(map[string]reflect.Type)
			}
			known[name] = field.Type
		}
	}
	return known
}

// unfit words why a value does not fit. It never repeats a value that may be a secret.
func unfit(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(e.Value, " ") // "number 12" names the value
		return fault.New(fault.Invalid, fmt.Sprintf("%q cannot be a %s", e.Field, kind))
	}
	if e, ok := errors.AsType[*time.ParseError](err); ok {
		return fault.New(fault.Invalid, fmt.Sprintf("%q is not a time: write it like 2026-01-01T00:00:00Z", site.Clip(strings.Trim(e.Value, `"`))))
	}
	return fault.New(fault.Invalid, site.Clip(err.Error())) // of hours
}

// IdempotencyKey returns the key of the request, "" if there is none. A key is 1 to 255
// characters of printable ASCII.
func (r *Request) IdempotencyKey() (string, error) {
	values := r.Header["Idempotency-Key"]
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	unprintable := func(c rune) bool { return c < ' ' || c > '~' }
	if len(values) > 1 || key == "" || len(key) > maxKey || strings.ContainsFunc(key, unprintable) {
		return "", fault.New(fault.Invalid, "The Idempotency-Key must be one of 1 to 255 printable ASCII characters")
	}
	return key, nil
}

// WaitsForResult reports whether an unlock is to be answered when the station has said how
// it ended; with the query wait=acknowledged it is when the station has the command.
func (r *Request) WaitsForResult() (bool, error) {
	wait := r.URL.Query()["wait"]
	if len(wait) == 0 {
		return true, nil
	}
	if len(wait) > 1 || wait[0] != "acknowledged" {
		return false, fault.New(fault.Invalid, `The query "wait" can only be "acknowledged"`)
	}
	return false, nil
}
