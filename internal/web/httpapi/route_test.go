package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"gatehouse/internal/health"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/httpapi"
	"gatehouse/internal/web/kit"
)

func TestRoute_unknownPath(t *testing.T) {
	w := newWorldWith(t, httpapi.Options{}, nil, unchanged)
	station := "/v1/stations/" + stationToken
	for _, path := range []string{
		"/", "/v1", "/v1/", "/v2/auth/login", "/v1/auth", "/v1/auth/", "/v1/auth/login/", "/v1/auth/Login", "/V1/auth/login",
		"/v1/stations", "/v1/stations/", station + "/", station + "/locks", station + "/locks/1", station + "/locks/1/lock",
		station + "/locks/1/unlock/", "/v1/stations//locks/1/unlock", station + "/locks//unlock", "//v1/auth/login", "/v1//auth/login",
		"/v1/./auth/login", "/v1/x/../auth/login", "/v1/auth/login/.", "/v1/auth/login/..", "/./v1/auth/login", "/..",
		"/v1%2Fauth/login", "/v1/auth/login%00", "/v1/webhooks/", "/v1/webhooks/1/2", "/v1/openapi.yaml", "/v1/openapi.json/",
		"/local", "/local/v1", "/local/v1/stations/", "/local/v1/stations/" + stationToken, "/local/v1/commands", "/local/v1/commands/",
		"/healthz/", "/readyz/x", "/metrics", "/admin", "/admin/v1", "/admin/v1/", "/admin/v1/status", "/favicon.ico", "/index.html",
		"/debug/pprof/", "/%2e%2e/etc/passwd", "/*", "/" + strings.Repeat("a/", 2000),
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS", "BREW"} {
			got := w.do(request{method: method, path: path, bearer: accessToken})
			got.want(t, 404, message("Not found"))
			if got.header.Get("Location") != "" {
				t.Errorf("%s %s redirects to %s", method, path, got.header.Get("Location"))
			}
		}
	}
}

func TestRoute_percentEncoded(t *testing.T) {
	w := newWorld(t)
	w.do(request{method: "GET", path: "/v1/stations/%63anary-station%2Dtoken", bearer: accessToken}).want(t, 200, stationJSON)
	w.do(request{method: "GET", path: "/v1/stations/" + stationToken + "?x=1&x=2;3", bearer: accessToken}).want(t, 200, stationJSON)
}

func TestRoute_head_events(t *testing.T) {
	w := newWorld(t)
	w.do(request{method: "HEAD", path: eventsPath, bearer: accessToken}).want(t, 200, "")
	await.Until(t, "the end of a stream without a body", func() bool { return w.stations.followers() == 0 })
}

func TestRoute_webhooks(t *testing.T) {
	w := newWorld(t)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
		for _, path := range []string{"/v1/webhooks", "/v1/webhooks/1", "/v1/webhooks/a%2Fb", "/v1/webhooks?x=1"} {
			for _, bearer := range []string{"", accessToken} {
				got := w.do(request{method: method, path: path, bearer: bearer})
				if method == "HEAD" {
					got.want(t, 501, "")
				} else {
					got.want(t, 501, message("Not implemented"))
				}
			}
		}
	}
	w.do(request{method: "POST", path: "/v1/webhooks", body: `{"url":"https://example.test"}`}).want(t, 501, message("Not implemented"))
	if strings.Contains(w.logs.String(), "ERROR") {
		t.Error("a webhook that is not implemented is no error of ours")
	}
}

func TestHealthz(t *testing.T) {
	w := newWorldWith(t, httpapi.Options{}, nil, unchanged)
	w.health.Raise(health.Condition{Code: health.StorageFailing, Severity: health.Fatal})
	w.do(request{method: "GET", path: "/healthz"}).want(t, 200, `{"status":"ok"}`)
}

func TestReadyz(t *testing.T) {
	w := newWorldWith(t, httpapi.Options{}, nil, unchanged)
	ready := request{method: "GET", path: "/readyz"}
	w.health.Raise(health.Condition{Code: health.ClockUntrusted, Severity: health.Warning, Summary: "the clock is secret"})
	w.do(ready).want(t, 200, `{"status":"ready"}`)
	w.health.Raise(health.Condition{Code: health.StorageFailing, Severity: health.Fatal, Summary: "disk /dev/sda1"})
	got := w.do(ready)
	got.want(t, 503, message("not ready: storage-failing"))
	if got.header.Get("Retry-After") != "5" {
		t.Errorf("%v", got.header)
	}
	w.health.Raise(health.Condition{Code: health.KeyDamaged, Severity: health.Fatal})
	w.do(ready).want(t, 503, message("not ready: key-damaged, storage-failing"))
	w.health.Clear(health.StorageFailing)
	w.health.Clear(health.KeyDamaged)
	w.do(ready).want(t, 200, `{"status":"ready"}`)
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	w.do(request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken})
	w.do(request{method: "GET", path: "/v1/stations/" + unknownToken, bearer: accessToken})
	w.do(request{method: "BREW", path: "/v1/auth/login"})
	w.do(request{method: "GET", path: "/" + canary})
	got := w.do(request{method: "GET", path: "/metrics"})
	if got.status != 200 || got.header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("got %d %v", got.status, got.header)
	}
	for _, line := range []string{
		`gatehouse_http_requests_total{route="/v1/stations/{station_token}",status="200"} 1`,
		`gatehouse_http_requests_total{route="/v1/stations/{station_token}",status="404"} 1`,
		`gatehouse_http_requests_total{route="/v1/auth/login",status="405"} 1`,
		`gatehouse_http_requests_total{route="unknown",status="404"} 1`,
		`gatehouse_event_streams 0`,
	} {
		if !strings.Contains(got.body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

func TestPanic(t *testing.T) {
	w := newAPI(t, 0)
	login := request{method: "POST", path: "/v1/auth/login", body: goodLogin}
	w.access.panics = "the request was " + password
	w.serveOnce(context.Background(), login).want(t, 500, message("Internal error"))
	if logs := w.logs.String(); !strings.Contains(logs, "panic: string") || !strings.Contains(logs, "fakeAccess).Login") {
		t.Errorf("the log does not say where: %s", logs)
	}
	if strings.Contains(w.logs.String(), canary) {
		t.Errorf("the log quotes the panic: %s", w.logs)
	}
	w.access.panics = nil
	if got := w.serveOnce(context.Background(), login); got.status != 200 {
		t.Errorf("after a panic: %d", got.status)
	}
}

// A response that breaks off in the middle must not look whole.
func TestPanic_afterTheHeader(t *testing.T) {
	half := kit.Route{Pattern: "/half", Serve: func(x *kit.Exchange) error {
		_, _ = x.Write([]byte("half"))
		_ = http.NewResponseController(x).Flush()
		panic("broken")
	}}
	w := newWorldWith(t, httpapi.Options{}, []kit.Route{half}, unchanged)
	resp, err := w.client.Do(w.build(request{method: "GET", path: "/half"}))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("got %q whole", body)
	}
	if !strings.Contains(w.logs.String(), "panic: string") {
		t.Error("not logged")
	}
	w.do(request{method: "GET", path: "/healthz"}).want(t, 200, `{"status":"ok"}`)
}
