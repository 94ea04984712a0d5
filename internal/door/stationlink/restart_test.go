package stationlink_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/site"
)

// ownDrift is the drift of both clocks that no station states, in millionths.
const ownDrift = 100

// kept is a report of a connection, which a library may have kept over the connection before.
type kept struct {
	sending
	fresh bool // made on this connection
}

// reconnection is a connection of a station, which was heard on another one before: that ended at
// -away, by a clock that reads 0 when this one begins.
type reconnection struct {
	before, now player // the same, where it has not restarted between the two
	restarted   bool
	steady      bool          // every report of this connection travels for about as long
	unknown     bool          // what was heard before: the gateway has restarted, too
	away, late  time.Duration // late is how long the last report before had travelled
	drift       int64
	own         float64 // the rate of the gateway's clock
	all         []kept
	ends        []time.Duration // of connections on which the new run was heard, each followed by another one
}

// reconnect draws a connection. Its library has kept reports of the run before, in a file where the
// station has restarted.
func reconnect(r *rand.Rand, restarted bool) (c reconnection) {
	off := func(most float64) float64 { return 1 + (2*r.Float64()-1)*most/1e6 }
	c = reconnection{
		restarted: restarted, unknown: r.IntN(4) == 0, away: time.Second + upTo(r, time.Hour),
		late: upTo(r, 4*time.Second), drift: []int64{0, 0, 50, 20_000}[r.IntN(4)],
	}
	c.own = off(50)
	lived := c.late + time.Second + upTo(r, 100*time.Hour)
	c.before = player{start: -c.away - lived, rate: off(float64(c.drift) + 50)}
	c.now = c.before
	ended := time.Duration(0) // the run before
	if restarted {
		c.now.start = -upTo(r, c.away)
		ended = c.now.start - upTo(r, c.away+c.now.start)
	}
	delay := 4 * time.Second
	if c.steady = r.IntN(2) == 0; c.steady {
		delay = 50 * time.Millisecond
	}
	for made := upTo(r, time.Second); len(c.all) < 4; made += 6*time.Second + upTo(r, time.Hour) {
		c.all = append(c.all, kept{sending{made: made, arrives: made + upTo(r, delay)}, true})
	}
	begins := []time.Duration{0}
	for i := 0; restarted && i < len(c.all)-1; i++ {
		if r.IntN(2) == 0 {
			begins = append(begins, c.all[i].arrives+1+upTo(r, 6*time.Second-delay))
		}
	}
	c.ends = begins[1:]
	for i := range len(begins) + r.IntN(3) {
		begun := begins[i%len(begins)]
		k := kept{sending: sending{made: ended - upTo(r, ended-c.before.start), arrives: begun + upTo(r, 4*time.Second)}}
		if r.IntN(2) == 0 {
			k.arrives, k.again = begun+upTo(r, time.Minute), true
		}
		c.all = append(c.all, k)
	}
	slices.SortStableFunc(c.all, func(a, b kept) int { return cmp.Compare(a.arrives, b.arrives) })
	return c
}

// clock is the gateway's.
func (c *reconnection) clock(truth time.Duration) time.Duration {
	return 1000*time.Hour + time.Duration(c.own*float64(truth))
}

// isAmbiguous reports whether a report of the run before states by chance what is right to 5 s
// and the drift, or two that come on different connections keep pace with each other.
func (c *reconnection) isAmbiguous() bool {
	near := func(off time.Duration, most, passed time.Duration) bool {
		return max(off, -off).Milliseconds() <= most.Milliseconds()+passed.Milliseconds()*2*(c.drift+ownDrift)/1e6
	}
	return c.restarted && slices.ContainsFunc(c.all, func(k kept) bool {
		off := time.Duration(c.before.uptime(k.made)-c.now.uptime(k.arrives)) * time.Millisecond
		return !k.fresh && (near(off, 5*time.Second, k.arrives) || slices.ContainsFunc(c.all, func(other kept) bool {
			passed := other.arrives - k.arrives
			return !other.fresh && passed >= 5*time.Second && near(other.made-k.made-passed, 1200*time.Millisecond, passed)
		}))
	})
}

// play plays the connection, and returns what is not right from its first fresh report on: a notAfter behind
// the deadline, or, with a fresh report after that, none, or one with which the station refuses
// every command.
func (c *reconnection) play() string {
	u := stationlink.NewUptimes(c.clock(0))
	heard := c.clock(-c.away)
	if c.unknown {
		u.Follow(-1, 0, heard, heard)
	} else {
		u.Follow(c.before.uptime(-c.away-c.late), c.drift, heard, heard)
	}
	fresh, certain := 0, 1
	young := c.restarted && c.now.start-c.before.start < 15*time.Second // until the new run is older
	switch unclear := c.restarted || c.unknown || c.drift > 50; {
	case young, len(c.ends) > 0: // then, too, with two that keep pace
		certain = len(c.all)
	case unclear && !c.steady: // no reports keep pace, which alone shows of which run they are
		certain = len(c.all)
	case c.restarted: // one that was kept may have come between
		certain = 2
	case c.unknown || c.drift > 50: // each report that was kept may have come between
		certain = 3
	}
	ends := c.ends
	for i, k := range c.all {
		for len(ends) > 0 && ends[0] <= k.arrives {
			u, ends = u.Next(c.clock(ends[0])), ends[1:]
		}
		p := c.before
		if k.fresh {
			p = c.now
			fresh++
		}
		now := c.clock(k.arrives)
		u.Add(p.uptime(k.made), c.drift, k.again, now)
		if fresh == 0 {
			continue
		}
		const left = 5 * time.Second
		notAfter, ok := u.NotAfter(now+time.Duration(c.own*float64(left)), now)
		early := c.now.uptime(k.arrives+left) - notAfter
		travelled := (k.arrives - k.made).Milliseconds()
		right := ok && early <= travelled+travelled/20+3+11*(c.drift+ownDrift)/1000
		switch {
		case ok && early < 0:
			return fmt.Sprintf("after %d: notAfter is %d ms behind the deadline: %+v", i, -early, c)
		case k.fresh && !right && (fresh > certain || i > 0 && c.all[i-1].fresh && c.steady && !young):
			return fmt.Sprintf("after %d: notAfter is %t, %d ms before the deadline: %s; %+v", i, ok, early, u.Fault(), c)
		}
	}
	return ""
}

// A station restarts, and its library sends reports of the run before beside those of the new
// one, in whatever order, also where the gateway has restarted too.
func TestUptimes_reportsOfTheRunBefore(t *testing.T) {
	t.Parallel()
	eachCase(t, func(_ int, r *rand.Rand) string {
		c := reconnect(r, true)
		if c.isAmbiguous() {
			return ""
		}
		return c.play()
	})
}

// A library sends what it has kept in memory over the connection before: the station has not
// restarted.
func TestUptimes_restarts(t *testing.T) {
	t.Parallel()
	eachCase(t, func(_ int, r *rand.Rand) string {
		c := reconnect(r, false)
		return c.play()
	})
}

// What a report of the run before states is undone by the first report of the new run, in
// whatever order they come; how it answers commands counts too.
func TestLink_Received_reportOfTheRunBefore(t *testing.T) {
	const before = `{"uptime":432030000,"firmware":"1","locks":[{"lockId":"lock-1","status":"locked","door":"closed"}]}`
	const fresh = `{"uptime":18000,"answers":"result","firmware":"2","locks":[{"lockId":"lock-1","status":"unlocked","door":"open"}]}`
	for name, packets := range map[string][]string{
		"behind": {before, fresh},
		"before": {fresh, before},
		"both":   {before, fresh, before},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint(name, again), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, g := newGated(t)
					clock := &hand{now: 200 * time.Hour}
					l.SetClock(clock.read)
					first := connect(t, l, &conn{number: 1, qos: 1})
					report(l, first, []byte(`{"uptime":432000000}`))
					l.Disconnected(first, "lost")
					clock.now += time.Minute
					k := connect(t, l, &conn{number: 2, qos: 1})
					for _, p := range packets {
						l.Received(k, "stations/1042/report", []byte(p), again && p == before)
						clock.now += 50 * time.Millisecond
					}
					clock.now += 5 * time.Second
					k.onSend = func(id uint16) {
						l.Acknowledged(k, id, 0)
						go l.Received(k, "stations/1042/result", result(t, command, "refused"), false)
					}
					if got := l.Call(cmd(5*time.Second), false, at(yes, noop)); got != site.Refused {
						t.Errorf("outcome %s", got)
					}
					var sent struct{ NotAfter int64 }
					if err := json.Unmarshal(k.payloads[0], &sent); err != nil || sent.NotAfter <= 18_000+5000 || sent.NotAfter > 18_000+10_000+150 {
						t.Errorf("sent %s", k.payloads[0])
					}
					state, _ := g.State(gate)
					if got := fmt.Sprint(g.Firmware(gate), state.Locks[0].Door); got != "2open" {
						t.Errorf("known is %s", got)
					}
				})
			})
		}
	}
}

// A report of an earlier run states nothing however often the station has connected since, first
// or later on a connection, and until the clock itself shows what it states.
func TestLink_Received_reportOfAnEarlierRun(t *testing.T) {
	const old = `{"uptime":432000500,"locks":[{"lockId":"lock-1","status":"unlocked"}]}`
	for _, first := range []bool{false, true} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint("first ", first, ", again ", again), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, g := newGated(t)
					clock := &hand{now: 200 * time.Hour}
					l.SetClock(clock.read)
					report(l, connect(t, l, &conn{number: 1, qos: 1}), []byte(`{"uptime":432000000}`))
					clock.now += 3 * time.Second
					restarted := clock.now - time.Second
					for number := site.ConnectionID(2); number < 6; number++ {
						k := connect(t, l, &conn{number: number, qos: 1})
						present := func() {
							report(l, k, fmt.Appendf(nil, `{"uptime":%d,"locks":[{"lockId":"lock-1","status":"locked"}]}`, (clock.now-restarted).Milliseconds()))
						}
						if number == 2 || !first {
							present()
						}
						l.Received(k, "stations/1042/report", []byte(old), again)
						if payload, got := sentTo(t, l, k, 5*time.Second); got != nil && *got > (clock.now-restarted+5*time.Second).Milliseconds() {
							t.Errorf("connection %d: behind an old report: sent %s", number, payload)
						}
						present()
						if payload, got := sentTo(t, l, k, 5*time.Second); got == nil || *got != (clock.now-restarted+5*time.Second).Milliseconds()-1 {
							t.Errorf("connection %d: behind a present report: sent %s", number, payload)
						}
						if state, _ := g.State(gate); state.Locks[0].Status != site.Locked {
							t.Errorf("connection %d: the lock is %s", number, state.Locks[0].Status)
						}
						clock.now += 3 * time.Second
					}
				})
			})
		}
	}
}

// A station of which only a stored report was heard is believed with the second report that shows
// its clock, also where each comes over another connection.
func TestLink_Received_oneReportEachConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g := newGated(t)
		clock := &hand{now: 200 * time.Hour}
		l.SetClock(clock.read)
		for i, uptime := range []int{10_000_000, 70_000_000, 70_600_000} {
			report(l, connect(t, l, &conn{number: site.ConnectionID(i + 1), qos: 1}), fmt.Appendf(nil, `{"uptime":%d,"firmware":"%d"}`, uptime, i))
			clock.now += 10 * time.Minute
		}
		if got := g.Firmware(gate); got != "2" {
			t.Errorf("the report %s was believed last", got)
		}
	})
}
