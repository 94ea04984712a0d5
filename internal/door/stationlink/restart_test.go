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

// stored is a report that is sent on the connection after a restart of the station.
type stored struct {
	sending
	fresh bool // of the run that the connection belongs to
}

// afterRestart draws the reports of a connection that begins at 0: the station restarted
// before it, and its library has kept reports of the run before, which ended down before it,
// in a file. The connection before was heard last away before it.
func afterRestart(r *rand.Rand, away, down time.Duration) (all []stored) {
	for range 1 + r.IntN(3) {
		s := sending{made: -down - upTo(r, time.Minute), arrives: upTo(r, 3*time.Second), again: true}
		if r.IntN(2) == 0 {
			s.made, s.again = max(s.made, -away), false // what was made before it was not stored
		}
		all = append(all, stored{sending: s})
	}
	for made := upTo(r, time.Second); len(all) < 8; made += 3*time.Second + upTo(r, time.Hour) {
		all = append(all, stored{sending{made: made, arrives: made + upTo(r, 2*time.Second)}, true})
	}
	slices.SortStableFunc(all, func(a, b stored) int { return cmp.Compare(a.arrives, b.arrives) })
	return all
}

// A station restarts, and its library sends reports of the run before beside those of the new
// one, in whatever order: from the first report of the new run on, notAfter is never behind
// the deadline, also where the gateway has restarted too.
func TestUptimes_reportsOfTheRunBefore(t *testing.T) {
	t.Parallel()
	eachCase(t, func(_ int, r *rand.Rand) string {
		const heard = 2 * time.Hour // by the gateway's clock
		lived := 2*time.Minute + upTo(r, 100*time.Hour)
		away := 2*time.Second + upTo(r, time.Hour) // from the last report to the connection
		began := -time.Second - upTo(r, away-2*time.Second)
		down := upTo(r, away+began)
		before, now := player{start: -away - lived, rate: 1}, player{start: began, rate: 1}
		u := stationlink.NewUptimes(heard + away)
		if known := before.uptime(-away); r.IntN(4) > 0 {
			u.Follow(known, heard)
		} else {
			u.Follow(-1, heard)
		}
		any := false
		all := afterRestart(r, away, down-began)
		if slices.ContainsFunc(all, func(s stored) bool {
			return !s.fresh && max(before.uptime(s.made)-now.uptime(s.arrives), now.uptime(s.arrives)-before.uptime(s.made)) <= 5000
		}) {
			return "" // it states by chance what is right to 5 s
		}
		for i, s := range all {
			p := before
			if s.fresh {
				p, any = now, true
			}
			clock := heard + away + s.arrives
			u.Add(p.uptime(s.made), 0, s.again, clock)
			if !any {
				continue
			}
			const left = 5 * time.Second
			notAfter, ok := u.NotAfter(clock+left, clock)
			if late := notAfter - now.uptime(s.arrives+left); ok && late > 0 {
				return fmt.Sprintf("after %d of %v: notAfter is %d ms behind the deadline", i, all, late)
			}
			if !ok && s.fresh && u.Fault() != "looks like seconds instead of milliseconds" {
				return "no notAfter: the uptime " + string(u.Fault())
			}
		}
		return ""
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
