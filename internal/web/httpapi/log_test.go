package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"gatehouse/internal/fault"
)

// errorLogBurst is how many failures are logged at once.
const errorLogBurst = 20

// lines returns the log lines of a level and forgets them all.
func (w *world) lines(level slog.Level) []map[string]any {
	w.t.Helper()
	w.logs.mu.Lock()
	defer w.logs.mu.Unlock()
	var found []map[string]any
	decoder := json.NewDecoder(&w.logs.text)
	for {
		var line map[string]any
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			w.t.Fatal(err)
		}
		if line["level"] == level.String() {
			found = append(found, line)
		}
	}
}

func TestLog_unlock(t *testing.T) {
	w := newAPI(t, slog.LevelDebug)
	unlock := request{method: "POST", path: "/v1/stations/" + stationToken + "/locks/1/unlock", bearer: accessToken}
	w.serveOnce(context.Background(), unlock)
	lines := w.lines(slog.LevelInfo)
	if len(lines) != 1 {
		t.Fatalf("lines %v", lines)
	}
	for key, want := range map[string]any{
		"msg": "request answered", "route": "/v1/stations/{station_token}/locks/{lock_id}/unlock", "status": 200.0,
		"account": string(account), "command": string(command), "station": "1042", "lock": "lock-1", "outcome": "acknowledged",
		"replayed": false, "tls": false,
	} {
		if lines[0][key] != want {
			t.Errorf("%s is %v, want %v", key, lines[0][key], want)
		}
	}
	for _, key := range []string{"took", "remote"} {
		if _, ok := lines[0][key]; !ok {
			t.Errorf("no %s in %v", key, lines[0])
		}
	}
}

// Doors and sessions are logged at info level, the rest at debug level; so are
// refusals, which an outsider can cause at will.
func TestLog_levels(t *testing.T) {
	w := newAPI(t, slog.LevelDebug)
	station := "/v1/stations/" + stationToken
	for _, c := range []struct {
		request
		level slog.Level
	}{
		{request{method: "POST", path: "/v1/auth/login", body: goodLogin}, slog.LevelInfo},
		{request{method: "POST", path: "/v1/auth/revoke", bearer: accessToken}, slog.LevelInfo},
		{request{method: "POST", path: "/v1/auth/revoke-all", bearer: accessToken}, slog.LevelInfo},
		{request{method: "POST", path: station + "/locks/1/unlock", bearer: accessToken}, slog.LevelInfo},
		{request{method: "POST", path: "/local" + station + "/locks/1/unlock", bearer: accessToken}, slog.LevelInfo},
		{request{method: "POST", path: "/v1/auth/login", body: `{}`}, slog.LevelDebug},
		{request{method: "POST", path: "/v1/auth/login", body: `{"email":"a","password":"b"}`}, slog.LevelDebug},
		{request{method: "POST", path: station + "/locks/9/unlock", bearer: accessToken}, slog.LevelDebug},
		{request{method: "GET", path: station, bearer: accessToken}, slog.LevelDebug},
		{request{method: "GET", path: station}, slog.LevelDebug},
		{request{method: "GET", path: "/v1/webhooks"}, slog.LevelDebug},
		{request{method: "GET", path: "/nothing"}, slog.LevelDebug},
		{request{method: "PUT", path: station}, slog.LevelDebug},
	} {
		w.serveOnce(context.Background(), c.request)
		if lines := w.lines(c.level); len(lines) != 1 {
			t.Errorf("%s %s %s: %v", c.method, c.path, c.body, lines)
		}
	}
}

// A failure of ours is logged with its cause; a flood of them is not a flood of lines.
func TestLog_failures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAPI(t, slog.LevelDebug)
		w.access.fail = fault.Wrap(fault.Unavailable, "Storage is failing", errors.New("disk full"))
		for range 10 * errorLogBurst {
			w.serveOnce(context.Background(), request{method: "POST", path: "/v1/auth/login", body: goodLogin})
		}
		lines := w.lines(slog.LevelError)
		if len(lines) != errorLogBurst {
			t.Fatalf("%d lines", len(lines))
		}
		if lines[0]["error"] != "Storage is failing: disk full" || lines[0]["status"] != 503.0 || lines[0]["msg"] != "request failed" {
			t.Errorf("%v", lines[0])
		}
	})
}

// No secret reaches a log line, a metric or a body that is not the answer to who
// may have it: every request here carries some, in the right and in the wrong places.
func TestSecrets(t *testing.T) {
	w := newWorld(t)
	everywhere := map[string]string{
		"Cookie": canary, "X-Api-Key": canary, "User-Agent": canary, "Referer": "http://x/?token=" + canary,
		"Idempotency-Key": canary, "Last-Event-ID": canary, "X-Forwarded-For": canary,
	}
	station, hidden, unknown := "/v1/stations/"+stationToken, "/v1/stations/"+hiddenToken, "/v1/stations/"+unknownToken
	var bodies strings.Builder
	for _, path := range []string{
		station, hidden, unknown, station + "?token=" + accessToken, station + "/locks/1/unlock", hidden + "/locks/1/unlock",
		unknown + "/locks/" + canary + "/unlock", station + "/" + canary, "/" + canary, "/v1/webhooks/" + canary, "//" + canary,
		"/local" + hidden + "/events", "/local" + station + "/locks/1/unlock", "/local/v1/commands/" + canary, "/admin/v1/" + canary,
		"/v1/auth/login?" + password, "/v1/auth/refresh", "/v1/auth/revoke", "/v1/auth/revoke-all", "/healthz?" + canary, "/readyz",
	} {
		for _, method := range []string{"GET", "POST", canary} {
			for _, bearer := range []string{accessToken, newAccess, ""} {
				for _, body := range []string{
					"", canary, `{"email":"` + email + `","password":"canary"}`, `{"refreshToken":"canary"}`, `{"` + canary + `":1}`,
					`{"email":{"canary":1}}`, `{"email":"` + canary + `","password":3}`,
				} {
					got := w.do(request{method: method, path: path, bearer: bearer, body: body, header: everywhere})
					bodies.WriteString(got.body)
				}
			}
		}
	}
	for _, fail := range []func(){
		func() { w.access.fail = errors.New("broken") },
		func() { w.access.panics = password },
	} {
		w.access.with(fail)
		got := w.do(request{method: "POST", path: "/v1/auth/login", body: goodLogin})
		bodies.WriteString(got.body)
		w.access.with(func() { w.access.fail, w.access.panics = nil, nil })
		got.want(t, 500, message("Internal error"))
	}
	for _, c := range rawCases {
		w.raw(t, strings.ReplaceAll(c.bytes, "Host: x", "Host: 192.0.2.1\r\nAuthorization: Bearer "+accessToken))
	}
	bodies.WriteString(w.do(request{method: "GET", path: "/metrics"}).body)
	for name, text := range map[string]string{"a body": bodies.String(), "the log": w.logs.String()} {
		for _, secret := range []string{canary, refreshToken} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s has a secret: …%s…", name, text[max(0, i-200):min(len(text), i+100)])
			}
		}
		if !strings.Contains(text, "{station_token}") && name == "the log" {
			t.Error("the log names no routes")
		}
	}
	if strings.Contains(w.logs.String(), email) {
		t.Error("the log names an e-mail address")
	}
}
