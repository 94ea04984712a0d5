package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/health"
	"gatehouse/internal/web/httpapi"
)

func TestRoute_unknownPath(t *testing.T) {
	w := newWorldWith(t, httpapi.ListenerOptions{}, nil, func(*http.Server) {})
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

// A method that a path does not have is 405 with the methods that it has, also for
// whom has no token.
func TestRoute_wrongMethod(t *testing.T) {
	w := newWorld(t)
	for path, allow := range map[string]string{
		"/v1/auth/login":               "POST",
		"/v1/auth/refresh":             "POST",
		"/v1/auth/revoke":              "POST",
		"/v1/auth/revoke-all":          "POST",
		"/v1/openapi.json":             "GET, HEAD",
		"/v1/stations/" + stationToken: "GET, HEAD",
		"/v1/stations/" + stationToken + "/locks/1/unlock": "POST",
		"/local/v1/stations":                                     "GET, HEAD",
		"/local/v1/stations/" + stationToken + "/events":         "GET, HEAD",
		"/local/v1/stations/" + stationToken + "/locks/1/unlock": "POST",
		"/local/v1/commands/" + string(command):                  "GET, HEAD",
		"/local/v1/setup":                                        "POST",
		"/healthz":                                               "GET, HEAD",
		"/readyz":                                                "GET, HEAD",
		"/metrics":                                               "GET, HEAD",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "get", "PROPFIND"} {
			if strings.Contains(allow, method) {
				continue
			}
			got := w.do(request{method: method, path: path})
			if method == "HEAD" {
				got.want(t, 405, "")
			} else {
				got.want(t, 405, message("Method not allowed"))
			}
			if got.header.Get("Allow") != allow {
				t.Errorf("%s %s: Allow %q, want %q", method, path, got.header.Get("Allow"), allow)
			}
		}
	}
}

func TestRoute_head(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{
		"/v1/stations/" + stationToken, "/v1/stations/" + unknownToken, "/v1/openapi.json", "/local/v1/stations",
		"/local/v1/commands/" + string(command), "/healthz", "/readyz",
	} {
		get := w.do(request{method: "GET", path: path, bearer: accessToken})
		head := w.do(request{method: "HEAD", path: path, bearer: accessToken})
		head.want(t, get.status, "")
		for _, name := range []string{"Content-Type", "Content-Length", "Cache-Control"} {
			if head.header.Get(name) != get.header.Get(name) {
				t.Errorf("%s: %s is %q, with GET %q", path, name, head.header.Get(name), get.header.Get(name))
			}
		}
	}
	w.do(request{method: "HEAD", path: "/v1/stations/" + stationToken}).want(t, 401, "")
	w.do(request{method: "HEAD", path: eventsPath, bearer: accessToken}).want(t, 200, "")
	eventually(t, "the end of a stream without a body", func() bool { return w.stations.followers() == 0 })
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
	w := newWorldWith(t, httpapi.ListenerOptions{}, nil, func(*http.Server) {})
	w.health.Raise(health.Condition{Code: health.StorageFailing, Severity: health.Fatal})
	w.do(request{method: "GET", path: "/healthz"}).want(t, 200, `{"status":"ok"}`)
}

func TestReadyz(t *testing.T) {
	w := newWorldWith(t, httpapi.ListenerOptions{}, nil, func(*http.Server) {})
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

// The admin API gets its requests whole, and its responses pass through.
func TestAdmin(t *testing.T) {
	admin := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := http.NewResponseController(rw).Flush(); err != nil {
			t.Errorf("flushing: %v", err)
		}
		rw.(http.Flusher).Flush()
		_, _ = rw.Write([]byte(r.Method + " " + r.URL.Path + " " + string(body)))
	})
	w := newWorldWith(t, httpapi.ListenerOptions{Admin: true}, admin, func(*http.Server) {})
	w.do(request{method: "DELETE", path: "/admin/v1/accounts/a@b", body: "x"}).want(t, 200, "DELETE /admin/v1/accounts/a@b x")
	w.do(request{method: "GET", path: "/admin/v1"}).want(t, 404, message("Not found"))
	w.do(request{method: "GET", path: "/admin/v1/../../healthz"}).want(t, 404, message("Not found"))

	off := newWorldWith(t, httpapi.ListenerOptions{}, admin, func(*http.Server) {})
	off.do(request{method: "GET", path: "/admin/v1/status"}).want(t, 404, message("Not found"))
}

// A stream of the admin API can outlive the server's bounds.
func TestAdmin_outlivesTimeouts(t *testing.T) {
	proceed := make(chan struct{})
	admin := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(rw).SetWriteDeadline(time.Time{}); err != nil {
			t.Errorf("setting the deadline: %v", err)
		}
		<-proceed
		if r.Context().Err() != nil {
			t.Error("the request was given up")
		}
		_, _ = rw.Write([]byte("done"))
	})
	w := newWorldWith(t, httpapi.ListenerOptions{Admin: true}, admin, brief)
	answer := make(chan string)
	go func() {
		resp, err := w.client.Do(w.build(request{method: "GET", path: "/admin/v1/journal"}))
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answer <- string(body)
	}()
	w.outwait()
	close(proceed)
	if got := <-answer; got != "done" {
		t.Errorf("got %q", got)
	}
}

func TestPanic(t *testing.T) {
	w := newAPI(t, 0, nil)
	login := request{method: "POST", path: "/v1/auth/login", body: goodLogin}
	w.access.panics = "the request was " + password
	w.serveOnce(context.Background(), login).want(t, 500, message("Internal error"))
	if logs := w.logs.String(); !strings.Contains(logs, "request panicked") || !strings.Contains(logs, "fakeAccess).Login") {
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
	admin := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write([]byte("half"))
		_ = http.NewResponseController(rw).Flush()
		panic("broken")
	})
	w := newWorldWith(t, httpapi.ListenerOptions{Admin: true}, admin, func(*http.Server) {})
	resp, err := w.client.Do(w.build(request{method: "GET", path: "/admin/v1/x"}))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("got %q whole", body)
	}
	if !strings.Contains(w.logs.String(), "request panicked") {
		t.Error("not logged")
	}
	w.do(request{method: "GET", path: "/healthz"}).want(t, 200, `{"status":"ok"}`)
}

func TestNew_incomplete(t *testing.T) {
	if _, err := httpapi.New(httpapi.Config{}); err == nil {
		t.Error("an API without anything was made")
	}
}
