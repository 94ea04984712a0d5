package httpapi_test

import (
	"errors"
	"strings"
	"testing"

	"gatehouse/internal/site"
)

func TestLocal_stations(t *testing.T) {
	w := newWorld(t)
	list := request{method: "GET", path: "/local/v1/stations", bearer: accessToken}
	north := strings.TrimSuffix(stationJSON, "}") + `,"name":"North \"entrance\"","token":"` + stationToken + `"}`
	w.do(list).want(t, 200, "["+north+"]")

	w.access.with(func() { w.access.grants[account] = []site.StationID{hiddenStation, 99, stationID} })
	vault := `{"stationId":7,"batteryVoltage":null,"lastConnection":null,"status":"offline",` +
		`"locks":[{"lockId":"lock-1","status":"unknown","lastUpdated":null}],"name":"Vault","token":"` + hiddenToken + `"}`
	w.do(list).want(t, 200, "["+vault+","+north+"]")

	w.access.with(func() {
		w.access.grants[account] = []site.StationID{hiddenStation}
		w.access.closed[account] = []site.Closed{{Station: stationID, OpensAgain: site.At(clock{}.Now())}, {Station: 2000, OpensAgain: site.At(clock{}.Now())}}
	})
	w.do(list).want(t, 200, "["+vault+","+closedNorth+"]")
	w.access.with(func() { w.access.grants[account], w.access.closed[account] = nil, nil })
	w.do(list).want(t, 200, "[]")
	list.bearer = ""
	w.do(list).want(t, 401, message("Token is invalid"))
}

func TestLocal_unlock(t *testing.T) {
	w := newWorld(t)
	unlock := request{
		method: "POST", path: "/local/v1/stations/" + stationToken + "/locks/lock-1/unlock", bearer: accessToken,
		header: map[string]string{"Idempotency-Key": "key"},
	}
	for _, outcome := range []site.Outcome{site.Done, site.Refused, site.Failed, site.Acknowledged, site.StationGone, site.Expired} {
		w.unlocker.end(outcome, nil)
		got := w.do(unlock)
		got.want(t, 200, `{"commandId":"`+string(command)+`","outcome":"`+string(outcome)+`",`+
			`"lock":{"lockId":"lock-1","status":"locked","lastUpdated":"2026-11-21T07:00:00.005Z"}}`)
		if got.header.Get("Gatehouse-Command") != string(command) {
			t.Errorf("%v", got.header)
		}
		if req := w.unlocker.last(); !req.WaitResult || req.IdempotencyKey != "key" || req.Station != stationID || req.Lock != 1 {
			t.Errorf("asked for %+v", req)
		}
	}
	unlock.path += "?wait=acknowledged"
	if got := w.do(unlock); got.status != 200 || w.unlocker.last().WaitResult {
		t.Errorf("answered %d, asked for %+v", got.status, w.unlocker.last())
	}
	unlock.path += "&wait=acknowledged"
	w.do(unlock).want(t, 400, message(`The query \"wait\" can only be \"acknowledged\"`))
	unlock.path = "/local/v1/stations/" + hiddenToken + "/locks/lock-1/unlock"
	w.do(unlock).want(t, 404, message("Station not found"))
	unlock.bearer = "dead"
	w.do(unlock).want(t, 401, message("Token is invalid"))
}

func TestLocal_command(t *testing.T) {
	w := newWorld(t)
	read := request{method: "GET", path: "/local/v1/commands/" + string(command), bearer: accessToken}
	w.do(read).want(t, 200, `{"commandId":"`+string(command)+`","outcome":"acknowledged",`+
		`"lock":{"lockId":"lock-1","status":"locked","lastUpdated":"2026-11-21T07:00:00.005Z"}}`)

	w.do(request{method: "GET", path: "/local/v1/commands/0190c8a0-53c8-7a3e-8f0e-2f6d5a1b9c45", bearer: accessToken}).
		want(t, 404, message("Command not found"))
	for _, id := range []string{
		"x", strings.ToUpper(string(command)), string(command) + "0",
		"0190c8a0_53c8_7a3e_8f0e_2f6d5a1b9c44", "%27%20OR%201=1",
	} {
		w.do(request{method: "GET", path: "/local/v1/commands/" + id, bearer: accessToken}).want(t, 404, message("Command not found"))
	}
	read.bearer = otherAccess
	w.do(read).want(t, 404, message("Command not found"))
	read.bearer = ""
	w.do(read).want(t, 401, message("Token is invalid"))
	read.bearer = accessToken
	w.unlocker.end("", errors.New("broken"))
	w.do(read).want(t, 500, message("Internal error"))
}

// How a command ended stays known after the grant has ended; how the lock stands
// now does not.
func TestLocal_commandAfterTheGrant(t *testing.T) {
	w := newWorld(t)
	want := `{"commandId":"` + string(command) + `","outcome":"acknowledged","lock":{"lockId":"lock-1","status":"unknown","lastUpdated":null}}`
	read := request{method: "GET", path: "/local/v1/commands/" + string(command), bearer: accessToken}
	w.access.with(func() { w.access.grants[account] = nil })
	w.do(read).want(t, 200, want)
	w.access.with(func() { w.access.grants[account] = []site.StationID{stationID} })
	w.stations.remove(stationID)
	w.do(read).want(t, 200, want)
}
