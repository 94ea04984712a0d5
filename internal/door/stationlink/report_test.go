package stationlink_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"gatehouse/internal/door/station"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// brief describes what a report states: voltage, firmware and the locks 1 and 2.
func brief(r *station.Report) string {
	volts, firmware := "-", "-"
	if r.BatteryVoltage != nil {
		volts = fmt.Sprint(*r.BatteryVoltage)
	}
	if r.Firmware != nil {
		firmware = *r.Firmware
	}
	text := fmt.Sprintf("%s %s %s %s", volts, firmware, r.Locks[1], r.Locks[2])
	if r.Doors[1] != "" || r.Doors[2] != "" {
		text += fmt.Sprintf(" doors %s %s", r.Doors[1], r.Doors[2])
	}
	return text
}

// Each field is read by itself; what the types forbid is refused.
func TestParseReport(t *testing.T) {
	_, g := newGated(t)
	other := `{"lockId":"lock-1","status":"locked"}`
	for payload, c := range map[string]struct {
		want  string
		valid bool
	}{
		`{}`:            {"- -  ", true},
		`{"locks":[]}`:  {"- -  ", true},
		`{"BATTERY":7}`: {"- -  ", true},
		`{"batteryVoltage":3.71,"firmware":"1.4.2","locks":[{"lockId":"lock-1","status":"unlocked"},{"lockId":"2","status":"jammed"}]}`: {"3.71 1.4.2 unlocked jammed", true},
		`{"locks":[{"lockId":"lock-1","status":"jammed","door":"open"}]}`:                                                               {"- - jammed  doors open ", true},
		`{"locks":[{"lockId":"lock-2","door":"closed"}]}`:                                                                               {"- -   doors  closed", true},
		`{"locks":[{"lockId":"lock-1","door":"unknown","status":"locked"}]}`:                                                            {"- - locked  doors unknown ", true},
		`{"locks":[{"lockId":"lock-1","status":"locked","door":"ajar"}]}`:                                                               {"- - locked ", false},
		`{"locks":[{"lockId":"lock-1","status":"locked","door":null}]}`:                                                                 {"- - locked ", false},
		`{"locks":[{"lockId":"lock-1","status":"open","door":"open"}]}`:                                                                 {"- -   doors open ", false},
		`{"locks":[{"lockId":"lock-1","door":["open"]}]}`:                                                                               {"- -  ", false},
		`{"locks":[{"lockId":"lock-1","door":"` + strings.Repeat("open", 1000) + `"}]}`:                                                 {"- -  ", false},
		`{"locks":[{"lockId":"` + strings.Repeat("lock-1", 1000) + `","door":"open"}]}`:                                                 {"- -  ", false},
		`{"locks":[` + other + strings.Repeat(`,`+other, 63) + `]}`:                                                                     {"- - locked ", true},

		``:                                {"- -  ", false},
		`null`:                            {"- -  ", false},
		`[]`:                              {"- -  ", false},
		`{"firmware":"1"`:                 {"- -  ", false},
		"{\"firmware\":\"\xff\"}":         {"- -  ", false},
		`{"batteryVoltage":"4"}`:          {"- -  ", false},
		`{"batteryVoltage":null}`:         {"- -  ", false},
		`{"firmware":1}`:                  {"- -  ", false},
		`{"firmware":null}`:               {"- -  ", false},
		`{"locks":{}}`:                    {"- -  ", false},
		`{"locks":null}`:                  {"- -  ", false},
		`{"batteryVoltage":4,"locks":7}`:  {"4 -  ", false},
		`{"locks":[null,` + other + `]}`:  {"- - locked ", false},
		`{"locks":[{"lockId":"lock-2"}]}`: {"- -  ", false},
		`{"locks":[{"status":"locked"}]}`: {"- -  ", false},
		`{"locks":[{"lockId":2,"status":"locked"},` + other + `]}`:                               {"- - locked ", false},
		`{"locks":[{"lockId":"lock-65","status":"locked"}]}`:                                     {"- -  ", false},
		`{"locks":[{"lockId":"lock-2","status":"open"}]}`:                                        {"- -  ", false},
		`{"locks":[` + strings.Repeat(other+`,`, 64) + `{"lockId":"lock-2","status":"locked"}]}`: {"- - locked ", false},
		`{"uptime":"x","firmware":"1"}`:                                                          {"- 1  ", false},
		`{"uptime":-1}`:                                                                          {"- -  ", false},
		`{"uptimeDrift":50001}`:                                                                  {"- -  ", false},
		`{"uptime":0,"uptimeDrift":0}`:                                                           {"- -  ", true},
		`{"answers":"result","firmware":"1"}`:                                                    {"- 1  ", true},
		`{"answers":"results","firmware":"1"}`:                                                   {"- 1  ", false},
		`{"answers":true,"firmware":"1"}`:                                                        {"- 1  ", false},
		`{"answers":null,"firmware":"1"}`:                                                        {"- 1  ", false},
	} {
		r, _ := stationlink.ParseReport([]byte(payload))
		if got := brief(r); got != c.want {
			t.Errorf("%s: %q, want %q", payload, got, c.want)
		}
		if err := g.Report(gate, r); (err == nil) != c.valid || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

// What a station gets wrong is logged; what it gets right is not.
func TestLink_Received_complains(t *testing.T) {
	p, log := &presence{}, &bytes.Buffer{}
	l := stationlink.New(p, &health.Registry{}, metric.New(), slog.New(slog.NewTextHandler(log, nil)))
	c := connect(t, l, &conn{qos: 1})
	log.Reset()
	report(l, c, []byte(`{}`))
	l.Received(c, "stations/1042/command", []byte(`{}`), false)
	l.Received(c, "stations/7/report", []byte(`{}`), false)
	if log.Len() != 0 {
		t.Errorf("logged %s", log)
	}
	p.reports = fault.New(fault.Invalid, "wrong")
	report(l, c, []byte(`{}`))
	results(l, c, []byte(`{}`))
	if n := strings.Count(log.String(), "not understood"); n != 2 {
		t.Errorf("logged %s", log)
	}
}

// A station that has opened another lock than its command's has failed, and states nothing of
// either.
func TestLink_Received_resultOfAnotherLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := newLink(t)
		followed := 0
		l.Follow(func(site.CommandID, site.StationID, site.LockID, site.Outcome) bool { followed++; return true })
		k := &conn{qos: 1}
		k.onSend = func(id uint16) {
			results(l, k, []byte(`{"id":"`+string(command)+`","result":"done","lockId":"lock-1","status":"unlocked"}`))
			go l.Acknowledged(k, id, 0)
		}
		connect(t, l, k)
		if got := l.Call(cmd(5e9), false, at(yes, noop)); got != site.Failed {
			t.Errorf("outcome %s", got)
		}
		if followed != 0 || strings.Contains(fmt.Sprint(p.all()), "unlocked") {
			t.Errorf("followed %d times, heard %v", followed, p.all())
		}
	})
}

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
		if _, got := stationlink.ParseReport([]byte(payload)); got.Uptime != want {
			t.Errorf("%s: %+v", payload, got)
		}
	}
}
