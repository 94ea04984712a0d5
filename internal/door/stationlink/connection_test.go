package stationlink_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/site"
)

// underWay makes a call for that lock and returns when the station has the command.
func underWay(l *stationlink.Link, id site.CommandID, lock site.LockID, wantResult bool) (outcome chan site.Outcome) {
	c := cmd(5 * time.Second)
	c.ID, c.Lock = id, lock
	outcome = make(chan site.Outcome, 1)
	go func() { outcome <- l.Call(c, wantResult, at(yes, noop)) }()
	synctest.Wait()
	return outcome
}

// A PUBACK that comes over the next connection acknowledges its own command, and not the one
// that the station got there.
func TestLink_Acknowledged_ofTheConnectionBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		first := connect(t, l, &conn{number: 1, qos: 1})
		ended := underWay(l, command[:35]+"0", 2, false)
		results(l, first, result(t, command[:35]+"0", "failed"))
		<-ended
		before := underWay(l, command[:35]+"1", 2, false)
		second := connect(t, l, &conn{number: 2, qos: 1})
		now := underWay(l, command[:35]+"2", 1, false)
		l.Acknowledged(second, first.sent[0], 0)
		l.Acknowledged(second, first.sent[1], 0)
		if got := <-before; got != site.Acknowledged {
			t.Errorf("the command of the connection before: outcome %s", got)
		}
		synctest.Wait()
		if len(now) > 0 {
			t.Fatalf("the command of this connection: outcome %s", <-now)
		}
		l.Acknowledged(second, second.sent[0], 0)
		if got := <-now; got != site.Acknowledged {
			t.Errorf("the command of this connection: outcome %s", got)
		}
		if _, reset := second.state(); reset != "" {
			t.Errorf("reset %q", reset)
		}
	})
}

// The use case hears of the end of the connection while the call waits on.
func TestLink_Call_tellsOfLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		first := connect(t, l, &conn{number: 1, qos: 1})
		d := &lostDeparture{departure: at(yes, noop)}
		ended := make(chan site.Outcome, 1)
		go func() { ended <- l.Call(cmd(5*time.Second), false, d) }()
		synctest.Wait()
		if d.lost != 0 {
			t.Error("it was told before")
		}
		l.Disconnected(first, "lost")
		synctest.Wait()
		if d.lost != 1 || len(ended) > 0 {
			t.Errorf("it was told %d times, and the call has ended: %d", d.lost, len(ended))
		}
		<-ended
	})
}

type lostDeparture struct {
	departure
	lost int
}

func (d *lostDeparture) Lost() { d.lost++ }

// The end of a connection ends no call: its answer comes over the next one, or its deadline
// does.
func TestLink_Call_connectionLost(t *testing.T) {
	for name, c := range map[string]struct {
		wantResult, acked bool
		answer            string // over the next connection, after a second
		want              site.Outcome
		after             time.Duration
	}{
		"nothing":                {false, false, "", site.Expired, 5 * time.Second},
		"done":                   {false, false, "done", site.Done, time.Second},
		"refused":                {false, false, "refused", site.Refused, time.Second},
		"acknowledged":           {true, true, "", site.Acknowledged, 4750 * time.Millisecond},
		"acknowledged, done":     {true, true, "done", site.Done, time.Second},
		"acknowledged, refused":  {true, true, "refused", site.Refused, time.Second},
		"waits for it, nothing":  {true, false, "", site.Expired, 5 * time.Second},
		"waits for it, failed":   {true, false, "failed", site.Failed, time.Second},
		"waits for it, and done": {true, false, "done", site.Done, time.Second},
	} {
		for end, lose := range map[string]func(l *stationlink.Link, k *conn){
			"ends":          func(l *stationlink.Link, k *conn) { l.Disconnected(k, "lost") },
			"is taken over": func(*stationlink.Link, *conn) {},
		} {
			t.Run(name+"; "+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, _ := newLink(t)
					first := connect(t, l, &conn{number: 1, qos: 1})
					begun := time.Now()
					outcome := underWay(l, command, 2, c.wantResult)
					if c.acked {
						l.Acknowledged(first, first.sent[0], 0)
					}
					lose(l, first)
					second := connect(t, l, &conn{number: 2, qos: 1})
					<-time.After(time.Second)
					if c.answer != "" {
						results(l, second, result(t, command, c.answer))
					}
					if got := <-outcome; got != c.want || time.Since(begun) != c.after {
						t.Errorf("outcome %s after %s, want %s after %s", got, time.Since(begun), c.want, c.after)
					}
					if _, reset := second.state(); reset != "" {
						t.Errorf("the second connection is reset: %s", reset)
					}
				})
			})
		}
	}
}

// A result that comes over the next connection counts until the deadline, and not at it.
func TestLink_Call_resultAtTheDeadline(t *testing.T) {
	for after, want := range map[time.Duration]site.Outcome{5*time.Second - 1: site.Done, 5 * time.Second: site.Expired} {
		synctest.Test(t, func(t *testing.T) {
			l, _ := newLink(t)
			var followed []site.Outcome
			l.Follow(func(_ site.CommandID, _ site.StationID, _ site.LockID, outcome site.Outcome) bool {
				followed = append(followed, outcome)
				return true
			})
			first := connect(t, l, &conn{number: 1, qos: 1})
			report(l, first, []byte(byResult))
			outcome := underWay(l, command, 2, false)
			l.Acknowledged(first, first.sent[0], 0)
			l.Disconnected(first, "lost")
			second := connect(t, l, &conn{number: 2, qos: 1})
			<-time.After(after)
			results(l, second, result(t, command, "done"))
			if got := <-outcome; got != want {
				t.Errorf("after %s: outcome %s, want %s", after, got, want)
			}
			if late := slices.Contains(followed, site.Done); late != (want == site.Expired) {
				t.Errorf("after %s: followed %v", after, followed)
			}
		})
	}
}

// When the broker has stopped, no call waits any more, whatever its deadline is.
func TestLink_Stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		first := connect(t, l, &conn{number: 1, qos: 1})
		outcomes := []chan site.Outcome{underWay(l, command[:35]+"1", 2, false), underWay(l, command[:35]+"2", 2, true)}
		l.Disconnected(first, "lost")
		second := connect(t, l, &conn{number: 2, qos: 1})
		outcomes = append(outcomes, underWay(l, command[:35]+"3", 1, true))
		l.Acknowledged(second, second.sent[0], 0)
		begun := time.Now()
		l.Disconnected(second, "the gateway stops")
		l.Stop()
		for i, outcome := range outcomes {
			if got := <-outcome; got != site.Unresolved || time.Since(begun) != 0 {
				t.Errorf("call %d: outcome %s after %s", i, got, time.Since(begun))
			}
		}
	})
}

// What a station has stated of its answers counts on its next connection too, until the first
// report there.
func TestLink_Call_answersOfAnotherConnection(t *testing.T) {
	for name, c := range map[string]struct {
		reports []string // on the second connection
		again   bool
		want    site.Outcome
	}{
		"no report":        {nil, false, site.Expired},
		"stated again":     {[]string{`{"uptime":2000,"answers":"result"}`}, false, site.Expired},
		"not stated again": {[]string{`{"uptime":2000}`}, false, site.Acknowledged},
		"sent again":       {[]string{`{"uptime":2000}`}, true, site.Expired},
		"by an old report": {[]string{`{"uptime":2000}`, `{"uptime":1999,"answers":"result"}`}, false, site.Acknowledged},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := newLink(t)
				report(l, connect(t, l, &conn{number: 1, qos: 1}), []byte(`{"uptime":1000,"answers":"result"}`))
				k := &conn{number: 2, qos: 1}
				k.onSend = func(id uint16) { go l.Acknowledged(k, id, 0) }
				connect(t, l, k)
				for _, r := range c.reports {
					l.Received(k, "stations/1042/report", []byte(r), c.again)
				}
				if got := l.Call(cmd(5*time.Second), false, at(yes, noop)); got != c.want {
					t.Errorf("outcome %s, want %s", got, c.want)
				}
			})
		})
	}
}

// A station's drift counts on its next connection too, until the first report there.
func TestLink_Call_driftOfTheConnectionBefore(t *testing.T) {
	for name, c := range map[string]struct {
		report string // the first of the second connection, which is sent again where another follows
		then   string
		want   int64 // off 101,000 + 5,000
	}{
		"not stated again": {`{"uptime":1000}`, "", 11},
		"stated again":     {`{"uptime":1000,"uptimeDrift":10000}`, "", 1061},
		"first sent again": {`{"uptime":1000}`, `{}`, 11},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := newLink(t)
				clock := &hand{now: 42 * time.Hour}
				l.SetClock(clock.read)
				report(l, connect(t, l, &conn{number: 1, qos: 1}), []byte(`{"uptimeDrift":20000}`))
				k := connect(t, l, &conn{number: 2, qos: 1})
				l.Received(k, "stations/1042/report", []byte(c.report), c.then != "")
				clock.now += 100 * time.Second
				if c.then != "" {
					if _, got := sentTo(t, l, k, 5*time.Second); got == nil || *got != 106_000-2111 {
						t.Errorf("before the first report: notAfter %v", got)
					}
					report(l, k, []byte(c.then))
				}
				if _, got := sentTo(t, l, k, 5*time.Second); got == nil || *got != 106_000-c.want {
					t.Errorf("notAfter %v, want %d", got, 106_000-c.want)
				}
			})
		})
	}
}
