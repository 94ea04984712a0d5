package stationlink_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
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

// A result states how the lock is over the connection of its command, once, and until the next
// command; over a later one until the first report. One that a library has kept states nothing.
func TestLink_Received_resultOfALock(t *testing.T) {
	type station struct {
		*stationlink.Link
		t *testing.T
		k *conn
	}
	done := func(s station) { results(s.Link, s.k, result(s.t, command, "done")) }
	ack := func(s station) { s.Acknowledged(s.k, s.k.sent[len(s.k.sent)-1], 0) }
	next := func(s station) *conn { return connect(s.t, s.Link, &conn{number: s.k.number + 1, qos: 1}) }
	for name, c := range map[string]struct {
		play   func(s station)
		states int
	}{
		"at once":                {func(s station) { done(s); ack(s) }, 1},
		"after its PUBACK":       {func(s station) { ack(s); done(s) }, 1},
		"twice":                  {func(s station) { done(s); done(s); ack(s) }, 1},
		"again":                  {func(s station) { done(s); s.Received(s.k, "stations/1042/result", result(s.t, command, "done"), true) }, 1},
		"another word behind it": {func(s station) { done(s); ack(s); results(s.Link, s.k, result(s.t, command, "failed")) }, 1},
		"after the deadline":     {func(s station) { ack(s); <-time.After(6 * time.Second); done(s) }, 1},
		"next connection":        {func(s station) { s.k = next(s); done(s) }, 1},
		"next connection, late":  {func(s station) { <-time.After(6 * time.Second); s.k = next(s); done(s) }, 1},
		"next connection, again": {func(s station) {
			s.k = next(s)
			s.Received(s.k, "stations/1042/result", result(s.t, command, "done"), true)
		}, 0},
		"next connection, behind a report": {func(s station) {
			s.k = next(s)
			report(s.Link, s.k, []byte(`{"locks":[{"lockId":"lock-2","status":"locked"}]}`))
			done(s)
		}, 0},
		"behind the next command": {func(s station) {
			ack(s)
			underWay(s.Link, command[:35]+"2", 2, false)
			done(s)
			ack(s)
		}, 0},
		"of a command that nobody knows": {func(s station) {
			results(s.Link, s.k, result(s.t, command[:35]+"9", "done"))
			ack(s)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := newLink(t)
				l.Follow(func(id site.CommandID, _ site.StationID, _ site.LockID, _ site.Outcome) bool { return id == command })
				k := connect(t, l, &conn{number: 1, qos: 1})
				outcome := underWay(l, command, 2, false)
				c.play(station{l, t, k})
				<-outcome
				synctest.Wait()
				if got := strings.Count(fmt.Sprint(p.all()), "lock 1042 lock-2 unlocked"); got != c.states {
					t.Errorf("%d results state the lock, want %d: %v", got, c.states, p.all())
				}
			})
		})
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
