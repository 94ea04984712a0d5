package httpapi_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"gatehouse/internal/test/webtest"
)

func TestOpenAPI_served(t *testing.T) {
	w := newWorld(t)
	got := w.do(request{method: "GET", path: "/v1/openapi.json"})
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %d %v", got.status, got.header)
	}
	if !bytes.Equal([]byte(got.body), readFile(t, "openapi.json")) {
		t.Error("what is served is not openapi.json")
	}
	if w.spec.Doc.OpenAPI != "3.1.0" || w.spec.Doc.Info.Version != "1.0.0" {
		t.Errorf("openapi %s, version %s", w.spec.Doc.OpenAPI, w.spec.Doc.Info.Version)
	}
	if got := w.do(request{method: "GET", path: "/local/v1/openapi.json"}); got.body != string(readFile(t, "local.json")) {
		t.Errorf("what is served is not local.json: %d", got.status)
	}
}

// The descriptions and the route table name the same operations.
func TestOpenAPI_describesEveryRoute(t *testing.T) {
	w := newWorld(t)
	w.spec.Complete(t, "/v1", w.api.Routes(allOptions()))
	w.local.Complete(t, "/local/v1", w.api.Routes(allOptions()))
}

// The judge itself must be able to say no.
func TestOpenAPI_refusesWhatIsNotDescribed(t *testing.T) {
	d := webtest.Describe(t, "openapi.json")
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
			d.Check(judge, req, c.got.status, c.got.header, c.got.body)
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
