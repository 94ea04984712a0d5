package stationlink_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/site"
)

// hand is a clock that the test moves.
type hand struct{ now time.Duration }

func (h *hand) read() time.Duration { return h.now }

// sentTo makes a call with that much time and returns what the station is sent; the
// station acknowledges it.
func sentTo(tb testing.TB, l *stationlink.Link, c *conn, left time.Duration) (payload string, notAfter *int64) {
	tb.Helper()
	c.onSend = func(id uint16) { go l.Acknowledged(c, id, 0) }
	if got := l.Call(cmd(left), false, at(yes, noop)); got != site.Acknowledged {
		tb.Fatalf("outcome %s", got)
	}
	sent := c.payloads[len(c.payloads)-1]
	var command struct{ NotAfter *int64 }
	if err := json.Unmarshal(sent, &command); err != nil {
		tb.Fatal(err)
	}
	return string(sent), command.NotAfter
}

func TestLink_Call_notAfter(t *testing.T) {
	const half = 30 * time.Minute
	type step struct {
		after  time.Duration // the step before
		report string
	}
	for name, c := range map[string]struct {
		steps []step
		after time.Duration // the last step
		want  int64         // less the 5000 ms of the deadline; -1: none
	}{
		"no report":          {nil, 0, -1},
		"no uptime":          {[]step{{0, `{"batteryVoltage":4}`}}, 0, -1},
		"just now":           {[]step{{0, `{"uptime":1000}`}}, 0, 1000 - 1},
		"a while ago":        {[]step{{0, `{"uptime":1000}`}}, 100 * time.Second, 101_000 - 11},
		"stated drift":       {[]step{{0, `{"uptime":1000,"uptimeDrift":20000}`}}, 100 * time.Second, 101_000 - 2010 - 101},
		"drift stated later": {[]step{{0, `{"uptime":1000}`}, {0, `{"uptimeDrift":20000}`}}, 100 * time.Second, 101_000 - 2010 - 101},
		"drift of the first": {[]step{{0, `{"uptime":0,"uptimeDrift":9900}`}, {0, `{"uptime":1000}`}}, 100 * time.Second, 101_000 - 1000 - 50},
		"the greatest":       {[]step{{0, `{"uptime":10000}`}, {time.Minute, `{"uptime":67000}`}}, time.Second, 71_000 - 7},
		"the newer":          {[]step{{0, `{"uptime":7000}`}, {time.Minute, `{"uptime":70000}`}}, time.Second, 71_000 - 1},
		"after two hours":    {[]step{{0, `{"uptime":10000}`}, {half, `{"uptime":1807000}`}}, 3*half + time.Second, 7_208_000 - 541},
		"within two hours":   {[]step{{0, `{"uptime":10000}`}, {half, `{"uptime":1807000}`}}, 3*half - time.Second, 7_209_000 - 721},
		"old and alone":      {[]step{{0, `{"uptime":10000}`}}, 24 * time.Hour, 86_410_000 - 8641},
		"old":                {[]step{{0, `{"uptime":900000}`}, {time.Second, `{"uptime":700,"uptimeDrift":50000}`}, {time.Second, `{"uptime":1699}`}}, 0, 902_000 - 1},
		"wrapped":            {[]step{{0, `{"uptime":4294967000}`}, {time.Second, `{"uptime":704}`}}, 0, -1},
		"gone back":          {[]step{{0, `{"uptime":900000}`}, {time.Second, `{"uptime":700}`}, {6 * time.Second, `{"uptime":6700}`}}, 0, -1},
		"the longest":        {[]step{{0, fmt.Sprintf(`{"uptime":%d}`, int64(1<<53))}}, time.Hour, 1<<53 + 3_600_000 - 361},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := newLink(t)
				clock := &hand{now: 42 * time.Hour}
				l.SetClock(clock.read)
				k := connect(t, l, &conn{qos: 1})
				for _, s := range c.steps {
					clock.now += s.after
					report(l, k, []byte(s.report))
				}
				clock.now += c.after
				payload, got := sentTo(t, l, k, 5*time.Second)
				switch {
				case (got == nil) != (c.want < 0):
					t.Errorf("sent %s", payload)
				case got != nil && *got != c.want+5000:
					t.Errorf("notAfter is %d, want %d", *got-5000, c.want)
				}
			})
		})
	}
}

// The estimate is rounded down, and its bounds hold to the nanosecond.
func TestLink_Call_notAfter_exactly(t *testing.T) {
	const spacing, memory = 15 * time.Minute, 2 * time.Hour
	for name, c := range map[string]struct {
		first, second string
		between       time.Duration
		after         time.Duration // the second
		want          int64
	}{
		"rounded down":            {`{"uptime":0}`, `{}`, 0, 500_049, 4999},
		"rounded down no more":    {`{"uptime":0}`, `{}`, 0, 5 * time.Second, 9999},
		"the same uptime again":   {`{"uptime":1000}`, `{"uptime":1000}`, time.Minute, 0, 66_000 - 7},
		"spaced":                  {`{"uptime":10000}`, `{"uptime":905000}`, spacing, memory - spacing + time.Second, 905_000 + 6_306_000 - 631},
		"too close":               {`{"uptime":10000}`, `{"uptime":845000}`, spacing - 1, memory - spacing + time.Second + 1, 10_000 + 7_206_000 - 721},
		"at the end of its count": {`{"uptime":10000}`, `{"uptime":905000}`, spacing, memory - spacing, 10_000 + 7_205_000 - 721},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := newLink(t)
				clock := &hand{now: 42 * time.Hour}
				l.SetClock(clock.read)
				k := connect(t, l, &conn{qos: 1})
				report(l, k, []byte(c.first))
				clock.now += c.between
				report(l, k, []byte(c.second))
				clock.now += c.after
				if payload, got := sentTo(t, l, k, 5*time.Second); got == nil || *got != c.want {
					t.Errorf("sent %s, want %d", payload, c.want)
				}
			})
		})
	}
}

// The uptimes of one connection say nothing about the next.
func TestLink_Call_notAfter_otherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		first := connect(t, l, &conn{number: 1, qos: 1})
		report(l, first, []byte(`{"uptime":1000}`))
		second := connect(t, l, &conn{number: 2, qos: 1})
		report(l, first, []byte(`{"uptime":2000}`))
		if payload, got := sentTo(t, l, second, 5*time.Second); got != nil {
			t.Errorf("sent %s", payload)
		}
	})
}

// player is a station with a clock of its own and reports that travel.
type player struct {
	start time.Duration // in true time
	rate  float64       // of its clock
}

func (p player) uptime(at time.Duration) int64 {
	return int64(math.Floor(p.rate * float64(at-p.start) / 1e6))
}

// The formula of the contract, section 2: whatever reports travel for, however far both
// clocks are off within what is allowed, however old the reports are: notAfter is never
// behind the true deadline; and it is no earlier than the report that travelled least and
// the allowance account for. Reports are made 10 ms apart or more: where one that follows sooner
// is delayed by seconds, the clock looks like one of seconds, and there is no notAfter.
func TestLink_Call_notAfter_isNeverLate(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		ppm := func(most float64, label string) float64 {
			return 1 + rapid.Float64Range(-most, most).Draw(t, label)/1e6
		}
		drift := rapid.SampledFrom([]int64{0, 0, 50, 20_000, 50_000}).Draw(t, "stated drift")
		own := ppm(50, "gateway")
		p := player{
			start: -time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "age of the station")),
			rate:  ppm(float64(drift)+50, "station"),
		}
		var truth time.Duration
		l, _ := newLink(nil)
		l.SetClock(func() time.Duration { return time.Hour + time.Duration(own*float64(truth)) })
		k := &conn{qos: 1}
		if err := l.Connected(k); err != nil {
			t.Fatal(err)
		}
		type stated struct{ made, arrived time.Duration }
		var reports []stated
		for i := range rapid.IntRange(1, 60).Draw(t, "reports") {
			made := truth + time.Duration(rapid.Int64Range(int64(10*time.Millisecond), int64(10*time.Minute)).Draw(t, "pause"))
			truth = made + time.Duration(rapid.Int64Range(0, int64(4*time.Second)).Draw(t, "delay"))
			payload := fmt.Sprintf(`{"uptime":%d}`, p.uptime(made))
			if i == 0 || rapid.Bool().Draw(t, "states its drift") {
				payload = fmt.Sprintf(`{"uptime":%d,"uptimeDrift":%d}`, p.uptime(made), drift)
			}
			report(l, k, []byte(payload))
			reports = append(reports, stated{made, truth})
		}
		truth += time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "wait"))
		const left = 5 * time.Second
		k.onSend = func(id uint16) { go l.Acknowledged(k, id, 0) }
		synctest.Test(tt, func(*testing.T) { l.Call(cmd(left), false, at(yes, noop)) })
		var command struct{ NotAfter *int64 }
		if err := json.Unmarshal(k.payloads[0], &command); err != nil || command.NotAfter == nil {
			t.Fatalf("sent %s", k.payloads[0])
		}
		deadline := truth + time.Duration(float64(left)/own)
		if late := *command.NotAfter - p.uptime(deadline); late > 0 {
			t.Errorf("notAfter is %d ms behind the deadline", late)
		}
		// The last report, and each that no kept one makes worse by more than spacing, bounds from below.
		last := reports[len(reports)-1]
		age := float64(deadline - last.arrived)
		allowed := float64(last.arrived-last.made) + age*2.1*float64(drift+100)/1e6 + float64(2*time.Millisecond) // rounded down twice
		if early := p.uptime(deadline) - *command.NotAfter; float64(early)*1e6 > allowed*1.06 {
			t.Errorf("notAfter is %d ms before the deadline, the last report accounts for %.0f", early, allowed/1e6)
		}
	})
}

// Whatever a station reports, the next command is JSON, and its deadline is none or in
// the range of uptimes.
func FuzzLink_Report(f *testing.F) {
	f.Add([]byte(`{"uptime":123456789,"uptimeDrift":20000}`), []byte(`{"uptime":123456790}`), int64(time.Second))
	f.Add([]byte(`{"uptime":9007199254740992}`), []byte(`{"uptime":-1}`), int64(3*time.Hour))
	f.Add([]byte(`{"uptime":4294967295}`), []byte(`{"uptime":0}`), int64(90*24*time.Hour))
	f.Add([]byte(`{"uptime":1e15,"uptimeDrift":50000}`), []byte(`[]`), int64(1<<62))
	f.Fuzz(func(t *testing.T, first, second []byte, between int64) {
		l, _ := newGated(t)
		clock := &hand{now: time.Hour}
		l.SetClock(clock.read)
		k := connect(t, l, &conn{number: 1, qos: 1})
		report(l, k, first)
		clock.now += time.Duration(max(between, 0) % int64(10*365*24*time.Hour))
		report(l, k, second)
		payload, notAfter := sentTo(t, l, k, time.Hour)
		if notAfter != nil && (*notAfter < 0 || *notAfter > 1<<53+int64(11*365*24*time.Hour/time.Millisecond)) {
			t.Errorf("sent %s after %q and %q", payload, first, second)
		}
	})
}
