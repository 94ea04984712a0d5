package httpapi_test

import (
	"strings"
	"testing"

	"gatehouse/internal/site"
)

// An integration token that reads a station learns that it may not unlock it; of a station
// that it may not see it learns nothing.
func TestToken_readsOnly(t *testing.T) {
	w := newWorld(t)
	w.access.tokens["canary-integration"] = site.Actor{Origin: site.Local, Account: "t-1", Name: "Lobby"}
	w.access.reads = map[site.AccountID][]site.StationID{"t-1": {stationID}}
	const bearer, sentence = "canary-integration", "This token may read the station, but not unlock it"
	w.do(request{method: "GET", path: "/v1/stations/" + stationToken, bearer: bearer}).want(t, 200, stationJSON)
	w.do(request{method: "POST", path: "/v1/stations/" + stationToken + "/locks/1/unlock", bearer: bearer}).want(t, 403, message(sentence))
	w.do(request{method: "POST", path: "/local/v1/stations/" + stationToken + "/locks/9/unlock", bearer: bearer}).want(t, 403, message(sentence))
	for _, hidden := range []string{hiddenToken, unknownToken} {
		w.do(request{method: "GET", path: "/v1/stations/" + hidden, bearer: bearer}).want(t, 404, message("Station not found"))
		w.do(request{method: "POST", path: "/v1/stations/" + hidden + "/locks/1/unlock", bearer: bearer}).want(t, 404, message("Station not found"))
	}
	if got := w.do(request{method: "GET", path: "/local/v1/stations", bearer: bearer}); strings.Count(got.body, `"stationId"`) != 1 {
		t.Errorf("it sees %s", got.body)
	}
	w.access.with(func() { w.access.readsAll = "t-1" })
	if got := w.do(request{method: "GET", path: "/local/v1/stations", bearer: bearer}); strings.Count(got.body, `"stationId"`) != 2 {
		t.Errorf("it sees %s", got.body)
	}
}
