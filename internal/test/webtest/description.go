package webtest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"gatehouse/internal/web/kit"
)

// Description is an OpenAPI description that judges answers.
type Description struct {
	Doc    *openapi3.T
	router routers.Router
}

// described has what Describe has read, by path.
var described sync.Map

// Describe reads a description in the folder of the test, once, and validates it.
func Describe(t testing.TB, path string) *Description {
	t.Helper()
	if d, ok := described.Load(path); ok {
		return d.(*Description)
	}
	registerBodies()
	text, err := os.ReadFile(path) //nolint:gosec // of the test
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	d := &Description{doc, router}
	described.Store(path, d)
	return d
}

// registerBodies has the bodies of streams and files judged: lines of JSON as an array of
// documents, the others as texts.
var registerBodies = sync.OnceFunc(func() {
	for _, kind := range []string{"text/event-stream", "application/x-tar", "application/octet-stream", "text/csv"} {
		openapi3filter.RegisterBodyDecoder(kind, openapi3filter.FileBodyDecoder)
	}
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		documents := []any{}
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if lines.Text() == "" {
				continue
			}
			var document any
			if err := json.Unmarshal(lines.Bytes(), &document); err != nil {
				return nil, err
			}
			documents = append(documents, document)
		}
		return documents, lines.Err()
	})
})

// Check holds an answer to the description: status, body and headers. What no operation
// describes must be the 404 or the 405 that the description names for it.
func (d *Description) Check(t testing.TB, req *http.Request, status int, header http.Header, body string) {
	t.Helper()
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: d.find(req, status),
		Status:                 status,
		Header:                 header,
		Body:                   io.NopCloser(strings.NewReader(body)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if req.Method == http.MethodHead {
		input.Options.ExcludeResponseBody = true
	}
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		t.Errorf("%s %s: the response is not as described: %v\n%d %v %s", req.Method, req.URL.Path, err, status, header, body)
	}
}

// find returns the operation of a request, or one made of the responses to what is not
// described.
func (d *Description) find(req *http.Request, status int) *openapi3filter.RequestValidationInput {
	// The path goes in as it was sent, because a %2F separates nothing.
	clone := &http.Request{Method: req.Method, URL: &url.URL{Path: req.URL.EscapedPath()}, Header: req.Header}
	if clone.Method == http.MethodHead && !strings.HasPrefix(clone.URL.Path, "/v1/webhooks") {
		clone.Method = http.MethodGet
	}
	in := &openapi3filter.RequestValidationInput{Request: req}
	route, _, err := d.router.FindRoute(clone)
	if err != nil && status == http.StatusNotImplemented {
		clone.Method = http.MethodGet // a method that OpenAPI cannot name
		route, _, err = d.router.FindRoute(clone)
	}
	if err == nil && !strings.HasSuffix(clone.URL.Path, "/") { // the router is generous there
		in.Route = route
		return in
	}
	operation := &openapi3.Operation{Responses: openapi3.NewResponses()}
	name := map[int]string{http.StatusNotFound: "PathNotFound", http.StatusMethodNotAllowed: "MethodNotAllowed"}[status]
	answer := d.Doc.Components.Responses[name]
	if answer == nil {
		answer = d.Doc.Components.Responses["Error"]
	}
	if name == "" || answer == nil {
		answer = &openapi3.ResponseRef{Value: &openapi3.Response{}}
		status = http.StatusNoContent // so that nothing fits
	}
	operation.Responses.Set(strconv.Itoa(status), answer)
	in.Route = &routers.Route{Spec: d.Doc, Operation: operation, Method: req.Method, Path: req.URL.Path}
	return in
}

// Complete reports an error unless the description and the routes under a prefix name the
// same operations.
func (d *Description) Complete(t testing.TB, prefix string, routes []kit.Route) {
	t.Helper()
	var described, routed []string
	for path, item := range d.Doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	for _, r := range routes {
		switch method, pattern := r.Method, r.Pattern; {
		case !strings.HasPrefix(pattern, prefix+"/"):
		case method != "":
			routed = append(routed, method+" "+pattern)
		default:
			for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
				routed = append(routed, m+" "+pattern)
			}
		}
	}
	slices.Sort(routed)
	routed = slices.Compact(routed)
	for _, one := range routed {
		if !slices.Contains(described, one) {
			t.Errorf("the OpenAPI description of %s lacks %s", prefix, one)
		}
	}
	for _, one := range described {
		if !slices.Contains(routed, one) {
			t.Errorf("the OpenAPI description of %s has %s, which is no route", prefix, one)
		}
	}
}
