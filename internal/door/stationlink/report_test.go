package stationlink_test

import (
	"testing"

	"gatehouse/internal/door/stationlink"
)

// What a report states validly of the station's uptime is returned.
func TestParseReport_uptime(t *testing.T) {
	stated := func(ms int64) stationlink.Uptime { return stationlink.Uptime{Stated: true, Milliseconds: ms} }
	with := func(ms, drift int64) stationlink.Uptime {
		return stationlink.Uptime{Stated: ms >= 0, Milliseconds: max(ms, 0), DriftStated: true, Drift: drift}
	}
	for payload, want := range map[string]stationlink.Uptime{
		`{}`:                                       {},
		`{"uptime":0}`:                             stated(0),
		`{"uptime":123456789}`:                     stated(123456789),
		`{"uptime":1.5e3}`:                         stated(1500),
		`{"uptime":1500.9}`:                        stated(1500),
		`{"uptime":9007199254740992}`:              stated(1 << 53),
		`{"uptime":9007199254740994}`:              {},
		`{"uptime":1e999}`:                         {},
		`{"uptime":-1}`:                            {},
		`{"uptime":"1"}`:                           {},
		`{"uptime":null}`:                          {},
		`{"uptime":1000,"batteryVoltage":"x"}`:     stated(1000),
		`{"uptime":1000,"uptimeDrift":20000}`:      with(1000, 20000),
		`{"uptime":1000,"uptimeDrift":0.5}`:        with(1000, 1),
		`{"uptime":1000,"uptimeDrift":50000}`:      with(1000, 50000),
		`{"uptime":1000,"uptimeDrift":50001}`:      stated(1000),
		`{"uptime":1000,"uptimeDrift":-1}`:         stated(1000),
		`{"uptimeDrift":7}`:                        with(-1, 7),
		`{"uptime":[1000],"uptimeDrift":7}`:        with(-1, 7),
		`{"batteryVoltage":4,"uptime":1e3} `:       stated(1000),
		`{"locks":[],"uptime":5,"uptimeDrift":{}}`: stated(5),
	} {
		if _, got := stationlink.ParseReport([]byte(payload)); got != want {
			t.Errorf("%s: %+v", payload, got)
		}
	}
}
