package httpapi_test

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/kit"
)

// clock stands still.
type clock struct{}

func (clock) Now() time.Time { return time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC) }
func (clock) Trusted() bool  { return true }

const (
	vaultJSON = `{"stationId":7,"batteryVoltage":null,"lastConnection":null,"status":"offline",` +
		`"locks":[{"lockId":"lock-1","status":"unknown","lastUpdated":null}]}`
	// closedNorth tells nothing of the station but when it opens.
	closedNorth = `{"stationId":1042,"batteryVoltage":null,"lastConnection":null,"status":"offline",` +
		`"locks":[{"lockId":"lock-1","status":"unknown","lastUpdated":null},{"lockId":"lock-2","status":"unknown","lastUpdated":null}],` +
		`"name":"North \"entrance\"","token":"canary-station-token","opensAgain":"2026-11-21T08:00:00.000Z"}`
	gone = `{"stationId":1042,"removed":true}`
)

// listed returns a Station object with what the list adds to it.
func listed(object, name, token string) string {
	return strings.TrimSuffix(object, "}") + `,"name":"` + name + `","token":"` + token + `"}`
}

func north(object string) string { return listed(object, `North \"entrance\"`, stationToken) }
func vault(object string) string { return listed(object, "Vault", hiddenToken) }

// watch opens a watch and returns its lines.
func (w *world) watch() *feed {
	w.t.Helper()
	resp, err := w.client.Do(w.build(request{method: "GET", path: "/local/v1/watch", bearer: accessToken}))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		w.t.Fatalf("got %d %v", resp.StatusCode, resp.Header)
	}
	return &feed{w.t, resp.Body, bufio.NewReader(resp.Body)}
}

// wantLines waits for these lines, pulses left out.
func (f *feed) wantLines(want ...string) {
	f.t.Helper()
	for _, want := range want {
		got := "\n"
		for got == "\n" {
			var err error
			if got, err = f.text.ReadString('\n'); err != nil {
				f.t.Fatalf("got %q, %v; want %s", got, err, want)
			}
		}
		if got != want+"\n" {
			f.t.Fatalf("got %swant %s", got, want)
		}
	}
}

func start(count string) string { return `{"time":"2026-11-21T08:00:00.000Z","count":` + count + `}` }

func TestWatch(t *testing.T) {
	w := newWorld(t)
	f := w.watch()
	f.wantLines(start("1"), north(stationJSON))
	w.stations.happen(hiddenStation, 3.1)
	w.stations.happen(stationID, 3.6)
	f.wantLines(north(at("3.6")))
	w.stations.happen(stationID, 3.5)
	f.wantLines(north(at("3.5")))
}

// A grant that begins or ends shows within a second, while nothing happens.
func TestWatch_grants(t *testing.T) {
	w := newWorld(t)
	f := w.watch()
	f.wantLines(start("1"), north(stationJSON))
	w.access.with(func() { w.access.grants[account] = []site.StationID{hiddenStation, stationID} })
	f.wantLines(vault(vaultJSON))
	w.access.with(func() { w.access.grants[account] = []site.StationID{hiddenStation} })
	f.wantLines(gone)
	w.stations.happen(stationID, 3.6)
	w.access.with(func() { w.access.grants[account] = []site.StationID{stationID} })
	f.wantLines(north(at("3.6")), `{"stationId":7,"removed":true}`)
	w.stations.remove(stationID)
	f.wantLines(gone)
}

// A station that closes says when it opens again, and shows nothing that happens until then.
func TestWatch_closed(t *testing.T) {
	w := newWorld(t)
	f := w.watch()
	f.wantLines(start("1"), north(stationJSON))
	closed := []site.Closed{{Station: stationID, OpensAgain: site.At(clock{}.Now())}}
	w.access.with(func() { w.access.grants[account], w.access.closed[account] = nil, closed })
	f.wantLines(closedNorth)
	w.stations.happen(stationID, 3.6)
	w.access.with(func() { w.access.grants[account] = []site.StationID{hiddenStation} })
	f.wantLines(vault(vaultJSON))
	w.access.with(func() { w.access.grants[account], w.access.closed[account] = []site.StationID{stationID}, nil })
	f.wantLines(north(at("3.6")), `{"stationId":7,"removed":true}`)
}

// An account without a station sees that it has none.
func TestWatch_none(t *testing.T) {
	w := newWorld(t)
	w.access.with(func() { w.access.grants[account] = nil })
	f := w.watch()
	f.wantLines(start("0"))
	w.access.with(func() { w.access.grants[account] = []site.StationID{stationID} })
	f.wantLines(north(stationJSON))
}

// A stream that falls too far behind begins again.
func TestWatch_gap(t *testing.T) {
	w := newWorld(t)
	f := w.watch()
	f.wantLines(start("1"), north(stationJSON))
	w.stations.outrun(stationID, 3.5)
	f.wantLines(start("1"), north(at("3.5")))
	w.stations.happen(stationID, 3.4)
	f.wantLines(north(at("3.4")))
}

// The stream ends with the session; what comes after is not in it.
func TestWatch_ends(t *testing.T) {
	w := newWorld(t)
	f := w.watch()
	f.wantLines(start("1"), north(stationJSON))
	w.access.with(func() { delete(w.access.tokens, accessToken) })
	w.stations.happen(stationID, 3.5)
	f.wantLines(message("Token is invalid"))
	f.wantEnd()
	await.Until(t, "the end of the subscription", func() bool { return w.stations.followers() == 0 })
	w.do(request{method: "GET", path: "/local/v1/watch"}).want(t, 401, message("Token is invalid"))
}

func TestWatch_bounded(t *testing.T) {
	w := newWorld(t)
	for range kit.MaxStreamsPerAccount {
		w.watch().wantLines(start("1"))
	}
	w.do(request{method: "GET", path: "/local/v1/watch", bearer: accessToken}).want(t, 429, message("Too many streams are open"))
}
