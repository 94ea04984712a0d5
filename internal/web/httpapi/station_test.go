package httpapi_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

func TestStation_read(t *testing.T) {
	w := newWorld(t)
	got := w.do(request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken})
	got.want(t, 200, stationJSON)
	if got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", got.header)
	}
}

func TestStation_neverHeardOf(t *testing.T) {
	w := newWorld(t)
	w.do(request{method: "GET", path: "/v1/stations/" + hiddenToken, bearer: otherAccess}).want(t, 200,
		`{"stationId":7,"batteryVoltage":null,"lastConnection":null,"status":"offline",`+
			`"locks":[{"lockId":"lock-1","status":"unknown","lastUpdated":null}]}`)
}

// The Lock object of /v1 has three fields (specification, "Lock"), whatever is known of
// its door; reading it leaves the state as it is.
func TestStation_read_noDoors(t *testing.T) {
	w := newWorld(t)
	lock := &w.stations.states[stationID].Locks[0] // before the first request
	lock.Door, lock.DoorSince = site.DoorClosed, lock.LastUpdated
	for range 2 {
		got := w.do(request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken})
		var object struct{ Locks []map[string]any }
		if err := json.Unmarshal([]byte(got.body), &object); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(object.Locks[0])); !slices.Equal(got, []string{"lastUpdated", "lockId", "status"}) {
			t.Errorf("the Lock object of /v1 has the fields %v", got)
		}
		w.do(request{method: "GET", path: "/local/v1/stations", bearer: accessToken}).want(t, 200,
			"["+strings.Replace(strings.TrimSuffix(stationJSON, "}"), `.005Z"},{`, `.005Z","door":"closed","doorSince":"2026-11-21T07:00:00.005Z"},{`, 1)+
				`,"name":"North \"entrance\"","token":"`+stationToken+`"}]`)
	}
}

// Nobody learns why there is no such station: the answers are the same to the byte.
func TestStation_notFound(t *testing.T) {
	w := newWorld(t)
	var first response
	for i, token := range []string{unknownToken, hiddenToken, "x", "%2e%2e", "a%2Fb", "%00", strings.Repeat("a", 4000), "1042"} {
		got := w.do(request{method: "GET", path: "/v1/stations/" + token, bearer: accessToken})
		got.want(t, 404, message("Station not found"))
		got.header.Del("Date")
		if i == 0 {
			first = got
		}
		if len(got.header) != len(first.header) || got.header.Get("Content-Length") != first.header.Get("Content-Length") {
			t.Errorf("%s: %v, but %v", token, got.header, first.header)
		}
	}
}

// A grant that ends takes the station away at once, as does its removal.
func TestStation_goneFromNowOn(t *testing.T) {
	w := newWorld(t)
	read := request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken}
	w.do(read).want(t, 200, stationJSON)
	w.access.with(func() { w.access.grants[account] = nil })
	w.do(read).want(t, 404, message("Station not found"))
	w.access.with(func() { w.access.grants[account] = []site.StationID{stationID} })
	w.do(read).want(t, 200, stationJSON)
	w.stations.forgetState(stationID) // the removal is under way
	w.do(read).want(t, 404, message("Station not found"))
	w.stations.remove(stationID)
	w.do(read).want(t, 404, message("Station not found"))
}

// A client without a token learns nothing about stations.
func TestStation_authenticationFirst(t *testing.T) {
	w := newWorld(t)
	for _, token := range []string{stationToken, hiddenToken, unknownToken} {
		w.do(request{method: "GET", path: "/v1/stations/" + token}).want(t, 401, message("Token is invalid"))
		w.do(request{method: "POST", path: "/v1/stations/" + token + "/locks/1/unlock"}).want(t, 401, message("Token is invalid"))
		w.do(request{
			method: "POST", path: "/v1/stations/" + token + "/locks/x/unlock",
			header: map[string]string{"Idempotency-Key": strings.Repeat("k", 300)},
		}).want(t, 401, message("Token is invalid"))
	}
	if n := w.unlocker.count(); n != 0 {
		t.Errorf("%d unlocks were asked for", n)
	}
}

func TestUnlock(t *testing.T) {
	for outcome, want := range map[site.Outcome]string{
		site.Acknowledged: `{"success":true}`,
		site.Done:         `{"success":true}`,
		site.Refused:      `{"success":false}`,
		site.Failed:       `{"success":false}`,
		site.StationGone:  `{"success":false}`,
		site.Expired:      `{"success":false}`,
		site.Late:         `{"success":false}`,
	} {
		t.Run(string(outcome), func(t *testing.T) {
			before := time.Now()
			w := newWorld(t)
			w.unlocker.end(outcome, nil)
			for _, lock := range []string{"lock-1", "1", "%31", "lock%2D1"} {
				got := w.do(request{method: "POST", path: "/v1/stations/" + stationToken + "/locks/" + lock + "/unlock", bearer: accessToken})
				got.want(t, 200, want)
				if got.header.Get("Gatehouse-Command") != string(command) {
					t.Errorf("%v", got.header)
				}
				req := w.unlocker.last()
				if req.Actor.Account != account || req.Actor.Session != session || req.Actor.Origin != site.Local {
					t.Errorf("asked by %+v", req.Actor)
				}
				if req.Station != stationID || req.Lock != 1 || req.WaitResult || req.IdempotencyKey != "" {
					t.Errorf("asked for %+v", req)
				}
				if req.Accepted.Before(before) || req.Accepted.After(time.Now()) {
					t.Errorf("accepted at %v", req.Accepted)
				}
			}
		})
	}
}

// Every refusal goes through the unlocker, so that it takes the same way whatever
// the reason, and has the same bytes.
func TestUnlock_notFound(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		token, lock string
		station     site.StationID
		number      site.LockID
	}{
		{stationToken, "lock-3", stationID, 3},
		{stationToken, "lock-0", stationID, 0},
		{stationToken, "0", stationID, 0},
		{stationToken, "-1", stationID, 0},
		{stationToken, "+1", stationID, 0},
		{stationToken, "01", stationID, 0},
		{stationToken, "lock-01", stationID, 0},
		{stationToken, "LOCK-1", stationID, 0},
		{stationToken, "lock-1%20", stationID, 0},
		{stationToken, "lock-lock-1", stationID, 0},
		{stationToken, "abc", stationID, 0},
		{stationToken, "1.0", stationID, 0},
		{stationToken, "%ff", stationID, 0},
		{stationToken, "99999999999999999999", stationID, 0},
		{hiddenToken, "lock-1", hiddenStation, 1},
		{unknownToken, "lock-1", 0, 1},
		{unknownToken, "abc", 0, 0},
	} {
		path := "/v1/stations/" + c.token + "/locks/" + c.lock + "/unlock"
		got := w.do(request{method: "POST", path: path, bearer: accessToken})
		got.want(t, 404, message("Station not found"))
		if got.header.Get("Gatehouse-Command") != "" {
			t.Errorf("%s: %v", path, got.header)
		}
		if req := w.unlocker.last(); req.Station != c.station || req.Lock != c.number {
			t.Errorf("%s: asked for %d, %d", path, req.Station, req.Lock)
		}
	}
	if n := w.unlocker.count(); n != 17 {
		t.Errorf("%d refusals went through the unlocker", n)
	}
}

func TestUnlock_idempotencyKey(t *testing.T) {
	w := newWorld(t)
	unlock := func(keys ...string) (status int, passed string) {
		req := w.build(request{method: "POST", path: "/v1/stations/" + stationToken + "/locks/1/unlock", bearer: accessToken})
		req.Header["Idempotency-Key"] = keys
		before := w.unlocker.count()
		resp, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if w.unlocker.count() == before {
			return resp.StatusCode, ""
		}
		return resp.StatusCode, w.unlocker.last().IdempotencyKey
	}
	for _, key := range []string{"k", "a b", `"quoted"`, "!~", strings.Repeat("k", 255)} {
		if status, passed := unlock(key); status != 200 || passed != key {
			t.Errorf("%q: %d, passed on as %q", key, status, passed)
		}
	}
	for _, keys := range [][]string{{""}, {"  "}, {strings.Repeat("k", 256)}, {"ä"}, {"a\tb"}, {"\xff"}, {"a", "a"}, {"a", "b"}} {
		if status, passed := unlock(keys...); status != 400 || passed != "" {
			t.Errorf("%q: %d, passed on as %q", keys, status, passed)
		}
	}
	w.do(request{
		method: "POST", path: "/v1/stations/" + unknownToken + "/locks/1/unlock", bearer: accessToken,
		header: map[string]string{"Idempotency-Key": strings.Repeat("k", 256)},
	}).want(t, 400, message("The Idempotency-Key must be one of 1 to 255 printable ASCII characters"))
}

// The operation has no body; one that comes is not looked at.
func TestUnlock_bodyIgnored(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{"{}", "no JSON", strings.Repeat("x", kit.MaxBody)} {
		w.do(request{
			method: "POST", path: "/v1/stations/" + stationToken + "/locks/1/unlock", bearer: accessToken,
			body: body, header: map[string]string{"Content-Type": "text/plain"},
		}).want(t, 200, `{"success":true}`)
	}
}

func TestUnlock_errors(t *testing.T) {
	w := newWorld(t)
	unlock := request{method: "POST", path: "/v1/stations/" + stationToken + "/locks/1/unlock", bearer: accessToken}
	w.unlocker.end("", fault.Throttle("Too many unlocks", 1500*time.Millisecond))
	got := w.do(unlock)
	got.want(t, 429, message("Too many unlocks"))
	if got.header.Get("Retry-After") != "2" {
		t.Errorf("%v", got.header)
	}
	w.unlocker.end("", fault.New(fault.Timeout, "Still under way"))
	w.do(unlock).want(t, 503, message("Still under way"))
	w.unlocker.end("", errors.New("broken"))
	w.do(unlock).want(t, 500, message("Internal error"))
}
