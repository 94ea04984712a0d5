package stationlink_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/door/stationlink"
)

// cases is how many connections the properties are tried on.
const cases = 1_000_000

// eachCase calls f with the random numbers of each case, on every processor. They depend on
// the number of the case alone.
func eachCase(t *testing.T, f func(n int, r *rand.Rand) (fault string)) {
	t.Helper()
	const workers = 4
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			source := rand.NewPCG(0, 0)
			r := rand.New(source)
			for n := worker; n < cases && !t.Failed(); n += workers {
				source.Seed(uint64(n), 1042)
				if fault := f(n, r); fault != "" {
					t.Errorf("case %d: %s", n, fault)
				}
			}
		})
	}
	group.Wait()
}

// upTo returns a random time of any magnitude, but no longer than most.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(math.Exp(r.Float64()*math.Log(float64(most)))) - 1
}

// sending is one report on its way.
type sending struct {
	made, arrives time.Duration // in true time
	again         bool          // sent again
}

// sendings plays the reports of one connection that begins at zero and what libraries do
// with them: those that were stored come first or behind newer ones, reports overtake each
// other, and each may come twice.
func sendings(r *rand.Rand) (all []sending) {
	for range r.IntN(3) {
		s := sending{made: -upTo(r, time.Hour), arrives: upTo(r, 4*time.Second)}
		if r.IntN(2) == 0 {
			s.arrives, s.again = upTo(r, time.Minute), true
		}
		all = append(all, s)
	}
	delays, pauses := []time.Duration{time.Millisecond, 100 * time.Millisecond, 4 * time.Second}[r.IntN(3)], []time.Duration{time.Second, time.Minute, time.Hour}[r.IntN(3)]
	var made, stalled time.Duration
	for range 1 + r.IntN(8) {
		made += 10*time.Millisecond + upTo(r, pauses)
		s := sending{made: made, arrives: made + upTo(r, delays)}
		if r.IntN(50) == 0 {
			stalled = made + upTo(r, 3*time.Minute)
		}
		s.arrives = max(s.arrives, stalled)
		all = append(all, s)
		if r.IntN(4) == 0 {
			late := s
			late.arrives += upTo(r, 4*time.Second)
			if r.IntN(4) > 0 {
				late.arrives, late.again = s.arrives+upTo(r, 90*time.Second), true
			}
			all = append(all, late)
		}
	}
	slices.SortStableFunc(all, func(a, b sending) int { return cmp.Compare(a.arrives, b.arrives) })
	return all
}

// Reports come late, twice, out of order and from before the connection, the station
// restarts between two connections, and both clocks are off within what is allowed: notAfter
// is never behind the true deadline, and no further before it than the last report that is
// not old had travelled, and the drift of both clocks since.
func TestUptimes_rightClocks(t *testing.T) {
	t.Parallel()
	eachCase(t, func(_ int, r *rand.Rand) string {
		drift := []int64{0, 0, 0, 50, 20_000, 50_000}[r.IntN(6)]
		off := func(most float64) float64 { return 1 + (2*r.Float64()-1)*most/1e6 }
		own, p := off(50), player{start: -time.Hour - upTo(r, 1000*time.Hour), rate: off(float64(drift) + 50)}
		clock := func(truth time.Duration) time.Duration { return 3*time.Hour + time.Duration(own*float64(truth)) }
		u := stationlink.NewUptimes(clock(0))
		if p.start < -4*time.Hour && r.IntN(2) == 0 { // it has been up for longer than it was not heard
			u.Follow(p.uptime(-time.Hour), drift, clock(-time.Hour), clock(-time.Minute))
		}
		var last sending
		highest := -2 * time.Hour
		all := sendings(r)
		for i, s := range all {
			now := s.arrives
			old := u.Add(p.uptime(s.made), drift, s.again, clock(now))
			if !old && s.made < highest-time.Millisecond {
				return fmt.Sprintf("report %d was overtaken and is not old: %v; %s", i, all, u.Fault())
			}
			if old && s.made > highest+time.Millisecond {
				return "a new report is old"
			}
			if !old {
				last, highest = s, s.made
			}
			at, next := now+upTo(r, 3*time.Hour), i+1
			if next < len(all) {
				at = min(at, all[next].arrives)
			}
			const left = 5 * time.Second
			deadline := at + left
			notAfter, ok := u.NotAfter(clock(at)+time.Duration(own*float64(left)), clock(at))
			if !ok && likeSeconds(all[:i], last) {
				continue
			}
			if !ok {
				return "no notAfter: the uptime " + string(u.Fault())
			}
			early := time.Duration(p.uptime(deadline)-notAfter) * time.Millisecond
			if early < 0 {
				return "notAfter is " + (-early).String() + " behind the deadline"
			}
			age := float64(deadline - last.arrives)
			most := last.arrives - last.made + time.Duration(age*2.1*float64(drift+100)/1e6) + 3*time.Millisecond
			if early > most+most/10 {
				return "notAfter is " + early.String() + " before the deadline, not " + most.String()
			}
		}
		return ""
	})
}

// likeSeconds reports whether a report came as much later than one before it as if their
// uptimes were in seconds: with a delay 999 times as long as the time between the two. Until
// the next report the gateway cannot know better.
func likeSeconds(before []sending, last sending) bool {
	return slices.ContainsFunc(before, func(s sending) bool {
		passed, off := last.arrives-s.arrives, 1000*(last.made-s.made)-(last.arrives-s.arrives)
		return passed > 2*time.Second && max(off, -off) < passed/10+3*time.Second
	})
}

// wrongClock is one that is not what firmware must report.
type wrongClock struct {
	uptime func(age time.Duration) int64 // by the time since the connection began
	// within is for how long after the connection began a delay may explain it: every report
	// after that, and the one before, shows it.
	within time.Duration
	fault  string
}

func wrongClocks() map[string]wrongClock {
	const day = 24 * time.Hour
	right := func(age time.Duration) int64 { return (day + age).Milliseconds() }
	scaled := func(by float64) func(time.Duration) int64 {
		return func(age time.Duration) int64 { return int64(by * float64(right(age))) }
	}
	stepped := func(by time.Duration) func(time.Duration) int64 {
		return func(age time.Duration) int64 {
			if age > time.Minute {
				age -= by
			}
			return right(age)
		}
	}
	return map[string]wrongClock{
		"seconds":       {scaled(1. / 1000), 30 * time.Second, "looks like seconds"},
		"minutes":       {scaled(1. / 60000), 5 * time.Minute, "advances more slowly"},
		"ticks":         {scaled(1. / 10), 5 * time.Minute, "advances more slowly"},
		"half":          {scaled(1. / 2), 9 * time.Minute, "advances more slowly"},
		"always one":    {func(time.Duration) int64 { return 123456789 }, 5 * time.Minute, "advances more slowly"},
		"double":        {scaled(2), 12 * time.Minute, "advances faster"},
		"microseconds":  {scaled(1000), 12 * time.Minute, "advances faster"},
		"32 bits":       {func(age time.Duration) int64 { return (age.Milliseconds() - 60_000) & (1<<32 - 1) }, 2 * time.Minute, "looks like a 32-bit counter"},
		"back by 10 s":  {stepped(10 * time.Second), 3 * time.Minute, "has gone back"},
		"back by a day": {stepped(day), 3 * time.Minute, "has gone back"},
		"not in sleep": {func(age time.Duration) int64 {
			return right(age.Truncate(time.Minute)/6 + min(age%time.Minute, 10*time.Second))
		}, 9 * time.Minute, "advances more slowly"},
	}
}

// A clock that no delay explains gets no deadline once two reports show what it is, also
// where each report travels for a while and some come again.
func TestUptimes_wrongClocks(t *testing.T) {
	t.Parallel()
	for name, c := range wrongClocks() {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 1042))
			for range cases / 200 {
				if fault := c.play(r); fault != "" {
					t.Fatal(fault)
				}
			}
		})
	}
}

// play plays one connection and returns what is not right.
func (c wrongClock) play(r *rand.Rand) string {
	const began = time.Hour
	u := stationlink.NewUptimes(began)
	pause := 5*time.Second + upTo(r, 55*time.Second)
	shown := 0 // reports after the time within which a delay may explain them
	for made := time.Duration(0); shown < 3; made += pause {
		arrives := began + made + upTo(r, 100*time.Millisecond)
		u.Add(c.uptime(made), 0, false, arrives)
		if r.IntN(4) == 0 && made > pause {
			u.Add(c.uptime(made-pause), 0, true, arrives)
		}
		if made > c.within {
			shown++
		}
		if _, ok := u.NotAfter(arrives+5*time.Second, arrives); ok && shown >= 2 {
			return fmt.Sprintf("a notAfter %s after the connection began", made)
		}
	}
	if !strings.HasPrefix(string(u.Fault()), c.fault) {
		return "its uptime " + string(u.Fault())
	}
	return ""
}
