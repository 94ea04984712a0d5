package stationlink_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// What was stored, delayed or sent twice states nothing once something newer has come.
func TestLink_Received_oldReport(t *testing.T) {
	const newer = `{"uptime":500000,"batteryVoltage":4,"firmware":"2","locks":[{"lockId":"lock-1","status":"locked","door":"closed"}]}`
	const present = "online 4 2 locked closed unknown "
	type packet struct {
		report string
		again  bool
	}
	for name, c := range map[string]struct {
		packets []packet
		want    string
	}{
		"an older uptime":            {[]packet{{newer, false}, {`{"uptime":440000,"batteryVoltage":3,"firmware":"1","locks":[{"lockId":"lock-1","status":"unlocked","door":"open"},{"lockId":"lock-2","status":"jammed"}]}`, false}}, present},
		"an older uptime, again":     {[]packet{{newer, false}, {`{"uptime":440000,"locks":[{"lockId":"lock-1","door":"open"}]}`, true}}, present},
		"the same again":             {[]packet{{`{"uptime":500000,"locks":[{"lockId":"lock-1","door":"open"}]}`, false}, {newer, false}, {`{"uptime":500000,"locks":[{"lockId":"lock-1","door":"open"}]}`, true}}, present},
		"no uptime, again":           {[]packet{{newer, false}, {`{"locks":[{"lockId":"lock-1","door":"open"}]}`, true}}, present},
		"faults of an old one":       {[]packet{{newer, false}, {`{"uptime":1,"batteryVoltage":-1,"locks":7}`, false}}, present},
		"stored ones come first":     {[]packet{{`{"uptime":440000,"batteryVoltage":3}`, true}, {`{"locks":[{"lockId":"lock-2","status":"jammed"}]}`, true}, {newer, false}}, "online 4 2 locked closed jammed "},
		"two in one millisecond":     {[]packet{{`{"uptime":500000,"locks":[{"lockId":"lock-1","door":"open"}]}`, false}, {newer, false}}, present},
		"none has an uptime":         {[]packet{{newer[:1] + newer[len(`{"uptime":500000,`):], false}}, present},
		"a newer one, sent again":    {[]packet{{newer, false}, {`{"uptime":500001,"firmware":"3"}`, true}}, strings.Replace(present, "2", "3", 1)},
		"a clock that has gone back": {[]packet{{`{"uptime":4294967290,"firmware":"1"}`, false}, {`{"uptime":5,"firmware":"3"}`, false}, {newer, false}}, present},
	} {
		t.Run(name, func(t *testing.T) {
			l, g := newGated(t)
			clock := &hand{now: time.Hour}
			l.SetClock(clock.read)
			k := connect(t, l, &conn{number: 1, qos: 1})
			for _, p := range c.packets {
				l.Received(k, "stations/1042/report", []byte(p.report), p.again)
				clock.now += 50 * time.Millisecond
			}
			state, _ := g.State(gate)
			got := fmt.Sprint(state.Status, " ", *state.BatteryVoltage, " ", g.Firmware(gate))
			for _, lock := range state.Locks {
				got += fmt.Sprint(" ", lock.Status, " ", lock.Door)
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A report that is read while another connection takes the place of its own states nothing.
func TestLink_Received_reportOfAReplacedConnection(t *testing.T) {
	l, g := newGated(t)
	first := connect(t, l, &conn{number: 1, qos: 1})
	report(l, first, []byte(`{"locks":[{"lockId":"lock-1","status":"locked"}]}`))
	g.beforeConnected = func() { report(l, first, []byte(`{"locks":[{"lockId":"lock-1","status":"unlocked"}]}`)) }
	connect(t, l, &conn{number: 2, qos: 1})
	report(l, first, []byte(`{"locks":[{"lockId":"lock-1","status":"jammed"}]}`))
	if state, _ := g.State(gate); state.Locks[0].Status != site.Locked {
		t.Errorf("the lock is %s", state.Locks[0].Status)
	}
}

// A result that a library has kept over a lost connection is known, but does not state how
// the lock is now.
func TestLink_Received_resultSentAgain(t *testing.T) {
	l, p := newLink(t)
	followed := 0
	l.Follow(func(site.CommandID, site.StationID, site.LockID, site.Outcome) bool { followed++; return true })
	k := connect(t, l, &conn{qos: 1})
	l.Received(k, "stations/1042/result", result(t, command, "done"), true)
	if followed != 1 || strings.Contains(fmt.Sprint(p.all()), "unlocked") {
		t.Errorf("followed %d times, heard %v", followed, p.all())
	}
}

// The finding names the stations whose clocks are wrong, for as long as they are connected.
func TestLink_stationClock(t *testing.T) {
	conditions := &health.Registry{}
	l := stationlink.New(&presence{}, conditions, metric.New(), slog.New(slog.DiscardHandler))
	clock := &hand{now: time.Hour}
	l.SetClock(clock.read)
	summary := func() string {
		for _, c := range conditions.Conditions() {
			if c.Code == health.StationClock {
				return c.Summary
			}
		}
		return ""
	}
	k := connect(t, l, &conn{number: 1, qos: 1})
	report(l, k, []byte(`{"uptime":1000}`))
	clock.now += 3 * time.Second
	report(l, k, []byte(`{"uptime":1003}`))
	if got := summary(); got != "The uptime of station 1042 looks like seconds instead of milliseconds" {
		t.Errorf("in seconds: %q", got)
	}
	clock.now += time.Second
	report(l, k, []byte(`{"uptime":5000}`)) // the one before had only been delayed
	if got := summary(); got != "" {
		t.Errorf("milliseconds after all: %q", got)
	}
	clock.now += 5 * time.Minute
	report(l, k, []byte(`{"uptime":5001}`))
	if got := summary(); !strings.Contains(got, "more slowly") {
		t.Errorf("slow: %q", got)
	}
	k = connect(t, l, &conn{number: 2, qos: 1})
	if got := summary(); got != "" {
		t.Errorf("another connection: %q", got)
	}
	report(l, k, []byte(`{"uptime":4294967295}`))
	report(l, k, []byte(`{"uptime":0}`))
	if got := summary(); !strings.Contains(got, "32-bit") {
		t.Errorf("wrapped: %q", got)
	}
	l.Disconnected(k, "lost")
	if got := summary(); got != "" {
		t.Errorf("disconnected: %q", got)
	}
}
