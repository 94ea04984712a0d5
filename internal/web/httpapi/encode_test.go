package httpapi_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gatehouse/internal/site"
)

// The body that is written by hand is the one that encoding/json writes.
func TestStation_sameAsEncodingJSON(t *testing.T) {
	w := newAPI(t, 0)
	times := rapid.Custom(func(t *rapid.T) site.Timestamp {
		if rapid.Bool().Draw(t, "never") {
			return site.Timestamp{}
		}
		return site.At(time.UnixMilli(rapid.Int64Range(0, 1e13).Draw(t, "millis")))
	})
	volts := rapid.OneOf(
		rapid.Float64Range(0, 60), rapid.Float64Range(-1e-5, 1e-5), rapid.Float64Range(1e20, 1e22),
		rapid.SampledFrom([]float64{0, 1e-6, 1e-7, 1e21, 3.71, 60, math.MaxFloat64, math.SmallestNonzeroFloat64}),
	)
	locks := rapid.Custom(func(t *rapid.T) site.Lock {
		return site.Lock{
			ID:          site.LockID(rapid.IntRange(1, site.MaxLocks).Draw(t, "id")),
			Status:      site.LockStatus(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"locked", "jammed"})).Draw(t, "status")),
			LastUpdated: times.Draw(t, "updated"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		state := site.StationState{
			ID:             site.StationID(rapid.Int64Range(1, site.MaxStationID).Draw(t, "id")),
			LastConnection: times.Draw(t, "connection"),
			Status:         rapid.SampledFrom([]site.StationStatus{site.Online, site.Offline}).Draw(t, "status"),
			Locks:          rapid.SliceOfN(locks, 0, site.MaxLocks).Draw(t, "locks"),
		}
		if rapid.Bool().Draw(t, "reported") {
			v := volts.Draw(t, "volts")
			state.BatteryVoltage = &v
		}
		w.stations.states[stationID] = state
		want, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		got := w.serveOnce(t.Context(), request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken})
		if got.status != 200 || got.body != string(want)+"\n" {
			t.Fatalf("got  %s\nwant %s", got.body, want)
		}
	})
}

// What JSON cannot say is null, and an absent list is an empty one.
func TestStation_oddValues(t *testing.T) {
	w := newAPI(t, 0)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		w.stations.states[stationID] = site.StationState{ID: stationID, BatteryVoltage: &v, Status: site.Offline}
		w.serveOnce(t.Context(), request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken}).
			want(t, 200, `{"stationId":1042,"batteryVoltage":null,"lastConnection":null,"status":"offline","locks":[]}`)
	}
}
