package httpapi_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// description is the OpenAPI description, ready to judge responses.
type description struct {
	doc    *openapi3.T
	router routers.Router
}

func loadDescription(t testing.TB) *description {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(readFile(t, "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &description{doc, router}
}

// check holds a response to the description: status, body and headers. What no
// operation describes must be the 404 or the 405 that the description names for it.
func (d *description) check(t testing.TB, req *http.Request, got response) {
	t.Helper()
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: d.find(req, got.status),
		Status:                 got.status,
		Header:                 got.header,
		Body:                   io.NopCloser(strings.NewReader(got.body)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(context.Background(), input); err != nil {
		t.Errorf("%s %s: the response is not as described: %v\n%d %v %s", req.Method, req.URL.Path, err, got.status, got.header, got.body)
	}
}

// find returns the operation of a request, or one made of the 404 and 405 responses.
func (d *description) find(req *http.Request, status int) *openapi3filter.RequestValidationInput {
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
	switch status {
	case http.StatusNotFound:
		operation.Responses.Set("404", &openapi3.ResponseRef{Value: d.doc.Components.Responses["PathNotFound"].Value})
	case http.StatusMethodNotAllowed:
		operation.Responses.Set("405", &openapi3.ResponseRef{Value: d.doc.Components.Responses["MethodNotAllowed"].Value})
	default:
		operation.Responses.Set("204", &openapi3.ResponseRef{Value: &openapi3.Response{}}) // so that nothing fits
	}
	in.Route = &routers.Route{Spec: d.doc, Operation: operation, Method: req.Method, Path: req.URL.Path}
	return in
}

func TestOpenAPI_served(t *testing.T) {
	w := newWorld(t)
	got := w.do(request{method: "GET", path: "/v1/openapi.json"})
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %v", got.status, got.header)
	}
	if !bytes.Equal([]byte(got.body), readFile(t, "openapi.json")) {
		t.Error("what is served is not openapi.json")
	}
	if w.spec.doc.OpenAPI != "3.1.0" || w.spec.doc.Info.Version != "1.0.0" {
		t.Errorf("openapi %s, version %s", w.spec.doc.OpenAPI, w.spec.doc.Info.Version)
	}
}

// The description and the route table name the same operations of /v1.
func TestOpenAPI_describesEveryRoute(t *testing.T) {
	w := newWorld(t)
	var described, routed []string
	for path, item := range w.spec.doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	for _, r := range w.api.Routes(allOptions()) {
		switch method, pattern := r.Method, r.Pattern; {
		case !strings.HasPrefix(pattern, "/v1/"):
		case method != "":
			routed = append(routed, method+" "+pattern)
		default:
			for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
				routed = append(routed, m+" "+pattern)
			}
		}
	}
	slices.Sort(described)
	slices.Sort(routed)
	if !slices.Equal(described, routed) {
		t.Errorf("described: %q\nrouted: %q", described, routed)
	}
}

// The judge itself must be able to say no.
func TestOpenAPI_refusesWhatIsNotDescribed(t *testing.T) {
	d := loadDescription(t)
	good := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}
	with := func(name, value string) http.Header {
		h := good.Clone()
		h.Set(name, value)
		return h
	}
	get, post := "GET", "POST"
	for name, c := range map[string]struct {
		method, path string
		got          response
	}{
		"status":         {get, "/v1/stations/t", response{418, good, message("x")}},
		"second field":   {get, "/v1/stations/t", response{404, good, `{"message":"x","code":1}`}},
		"no field":       {get, "/v1/stations/t", response{404, good, `{}`}},
		"no store":       {get, "/v1/stations/t", response{404, http.Header{"Content-Type": {"application/json"}}, message("x")}},
		"no challenge":   {get, "/v1/stations/t", response{401, good, message("x")}},
		"retry":          {post, "/v1/auth/login", response{429, with("Retry-After", "0"), message("x")}},
		"content type":   {get, "/v1/stations/t", response{404, with("Content-Type", "text/html"), message("x")}},
		"battery":        {get, "/v1/stations/t", response{200, good, strings.Replace(stationJSON, "3.71", `"3.71"`, 1)}},
		"lock status":    {get, "/v1/stations/t", response{200, good, strings.Replace(stationJSON, "locked", "ajar", 1)}},
		"time":           {get, "/v1/stations/t", response{200, good, strings.Replace(stationJSON, ".005Z", "Z", 1)}},
		"command":        {post, "/v1/stations/t/locks/1/unlock", response{200, good, `{"success":true}`}},
		"unknown path":   {get, "/v1/nothing", response{200, good, `{}`}},
		"unknown method": {"PUT", "/v1/auth/login", response{405, good, message("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			judge := &recordingTB{TB: t}
			req, _ := http.NewRequestWithContext(context.Background(), c.method, c.path, nil)
			d.check(judge, req, c.got)
			if !judge.failed {
				t.Error("let through")
			}
		})
	}
}

// recordingTB notes a failure instead of failing.
type recordingTB struct {
	testing.TB
	failed bool
}

func (r *recordingTB) Errorf(string, ...any) { r.failed = true }
