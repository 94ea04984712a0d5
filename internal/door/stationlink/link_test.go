package stationlink_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/station"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

const (
	gate    = site.StationID(1042)
	command = site.CommandID("0190c8a0-0000-7000-8000-000000000001")
)

// presence is a Presence that remembers what it heard.
type presence struct {
	mu      sync.Mutex
	heard   []string
	refuse  error
	reports error
	results bool // by the latest report
}

func (p *presence) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, s)
}

func (p *presence) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.heard)
}

func (p *presence) Connected(id site.StationID, _ site.ConnectionID, _ uint64, _ string) error {
	p.note("connected " + id.String())
	return p.refuse
}

func (p *presence) Disconnected(id site.StationID, _ site.ConnectionID, reason string) bool {
	p.note("disconnected " + id.String() + " " + reason)
	return true
}

func (p *presence) State(site.StationID) (state site.StationState, ok bool) { return state, true }

func (p *presence) Heard(id site.StationID) { p.note("heard " + id.String()) }

func (p *presence) AnswersByResult(site.StationID) bool { return p.results }

func (p *presence) Report(_ site.StationID, r *station.Report) error {
	p.results = r.ByResult
	return p.reports
}

func (p *presence) LockReported(id site.StationID, lock site.LockID, s site.LockStatus) {
	p.note("lock " + id.String() + " " + lock.String() + " " + string(s))
}

// conn is a Conn whose station is the test.
type conn struct {
	number    site.ConnectionID
	mu        sync.Mutex
	qos       byte
	deaf      bool
	takes     int
	broken    error
	sent      []uint16
	payloads  [][]byte
	deadlines []time.Time
	patiences []time.Duration
	reset     string
	onSend    func(packetID uint16)
	room      func() // returns when the station takes the command
}

func (c *conn) Station() site.StationID   { return gate }
func (c *conn) Generation() uint64        { return 1 }
func (c *conn) Number() site.ConnectionID { return c.number }
func (c *conn) Remote() string            { return "192.0.2.1:1" }
func (c *conn) ReceiveMaximum() int       { return c.takes }
func (c *conn) Ended() bool               { _, reset := c.state(); return reset != "" }
func (c *conn) Subscribed() (byte, bool) {
	return c.qos, !c.deaf
}

func (c *conn) Send(packetID uint16, _ byte, m stationlink.Message, deadline time.Time) error {
	if c.room != nil {
		c.room()
	}
	c.mu.Lock()
	if c.reset != "" || c.broken != nil {
		defer c.mu.Unlock()
		return errors.Join(errors.New("closed"), c.broken)
	}
	text, patience, err := m.Payload(nil)
	if err != nil {
		defer c.mu.Unlock()
		return err
	}
	c.sent = append(c.sent, packetID)
	c.payloads = append(c.payloads, text)
	c.deadlines = append(c.deadlines, deadline)
	c.patiences = append(c.patiences, patience)
	onSend := c.onSend
	c.mu.Unlock()
	if onSend != nil {
		onSend(packetID)
	}
	return nil
}

func (c *conn) Reset(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reset == "" {
		c.reset = reason
	}
}

func (c *conn) state() (sent []uint16, reset string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent), c.reset
}

func newLink(testing.TB) (*stationlink.Link, *presence) {
	p := &presence{}
	l := stationlink.New(p, &health.Registry{}, metric.New(), slog.New(slog.DiscardHandler))
	begun := time.Now()
	l.SetClock(func() time.Duration { return time.Since(begun) }) // the bubble's, where there is one
	return l, p
}

func connect(t *testing.T, l *stationlink.Link, c *conn) *conn {
	t.Helper()
	if err := l.Connected(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func cmd(in time.Duration) site.Command {
	return site.Command{ID: command, Station: gate, Lock: 2, Deadline: time.Now().Add(in)}
}

func result(t *testing.T, id site.CommandID, text string) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]string{"id": string(id), "result": text, "lockId": "lock-2", "status": "unlocked"})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func noop() {}

// departure is an [unlock.Departure] of two functions.
type departure struct {
	mayLeave func() bool
	left     func()
}

func (d departure) MayLeave() bool { return d.mayLeave() }
func (d departure) Left()          { d.left() }
func (departure) NotSubscribed()   {}
func (departure) Lost()            {}

// deafDeparture notes whether the station was not subscribed.
type deafDeparture struct {
	departure
	told bool
}

func (d *deafDeparture) NotSubscribed() { d.told = true }

func at(mayLeave func() bool, left func()) departure { return departure{mayLeave, left} }

// report and results publish as the station does.
func report(l *stationlink.Link, c *conn, payload []byte) {
	l.Received(c, "stations/1042/report", payload, false)
}

func results(l *stationlink.Link, c *conn, payload []byte) {
	l.Received(c, "stations/1042/result", payload, false)
}

func yes() bool { return true }

func TestLink_Call_offlineSendsNothing(t *testing.T) {
	l, _ := newLink(t)
	if got := l.Call(cmd(time.Second), false, at(yes, noop)); got != site.StationGone {
		t.Errorf("outcome %s, want offline", got)
	}
	c := connect(t, l, &conn{qos: 1, deaf: true})
	d := &deafDeparture{departure: at(yes, noop)}
	if got := l.Call(cmd(time.Second), false, d); got != site.StationGone || !d.told || l.Subscribed(gate) {
		t.Errorf("not subscribed: outcome %s, want offline; told %t", got, d.told)
	}
	c.Reset("over")
	d.told = false
	if got := l.Call(cmd(time.Second), false, d); got != site.StationGone || d.told {
		t.Errorf("ended: outcome %s, want offline; told %t", got, d.told)
	}
	if sent, _ := c.state(); len(sent) != 0 {
		t.Error("a command went to a connection that listens for none")
	}
}

func TestLink_Call_answers(t *testing.T) {
	for name, c := range map[string]struct {
		wantResult bool
		answer     func(l *stationlink.Link, c *conn, id uint16, t *testing.T)
		want       site.Outcome
		reset      bool
	}{
		"puback":                {false, func(l *stationlink.Link, c *conn, id uint16, _ *testing.T) { l.Acknowledged(c, id, 0) }, site.Acknowledged, false},
		"puback no subscribers": {false, func(l *stationlink.Link, c *conn, id uint16, _ *testing.T) { l.Acknowledged(c, id, 0x10) }, site.Acknowledged, false},
		"puback that refuses":   {false, func(l *stationlink.Link, c *conn, id uint16, _ *testing.T) { l.Acknowledged(c, id, 0x83) }, site.Refused, false},
		"puback unspecified":    {false, func(l *stationlink.Link, c *conn, id uint16, _ *testing.T) { l.Acknowledged(c, id, 0x80) }, site.Refused, false},
		"puback of another":     {false, func(l *stationlink.Link, c *conn, id uint16, _ *testing.T) { l.Acknowledged(c, id+1, 0) }, site.Expired, true},
		"done":                  {false, func(l *stationlink.Link, c *conn, _ uint16, t *testing.T) { results(l, c, result(t, command, "done")) }, site.Done, false},
		"refused": {false, func(l *stationlink.Link, c *conn, _ uint16, t *testing.T) {
			results(l, c, result(t, command, "refused"))
		}, site.Refused, false},
		"failed": {false, func(l *stationlink.Link, c *conn, _ uint16, t *testing.T) {
			results(l, c, result(t, command, "failed"))
		}, site.Failed, false},
		"result waits for it": {true, func(l *stationlink.Link, c *conn, id uint16, t *testing.T) {
			l.Acknowledged(c, id, 0)
			results(l, c, result(t, command, "done"))
		}, site.Done, false},
		"result never comes":   {true, func(l *stationlink.Link, c *conn, id uint16, _ *testing.T) { l.Acknowledged(c, id, 0) }, site.Acknowledged, false},
		"silence":              {false, func(*stationlink.Link, *conn, uint16, *testing.T) {}, site.Expired, true},
		"silence, with result": {true, func(*stationlink.Link, *conn, uint16, *testing.T) {}, site.Expired, true},
		"another's result": {false, func(l *stationlink.Link, c *conn, _ uint16, t *testing.T) {
			results(l, c, result(t, "0190c8a0-0000-7000-8000-000000000009", "done"))
		}, site.Expired, true},
		"another lock's result": {false, func(l *stationlink.Link, c *conn, _ uint16, _ *testing.T) {
			results(l, c, []byte(`{"id":"`+string(command)+`","result":"done","lockId":"lock-1","status":"unlocked"}`))
		}, site.Failed, false},
		"no lock's result": {false, func(l *stationlink.Link, c *conn, _ uint16, _ *testing.T) {
			results(l, c, []byte(`{"id":"`+string(command)+`","result":"done"}`))
		}, site.Done, false},
		"a wrong lock's result": {false, func(l *stationlink.Link, c *conn, _ uint16, _ *testing.T) {
			results(l, c, []byte(`{"id":"`+string(command)+`","result":"done","lockId":5}`))
		}, site.Failed, false},
		"refused, of another lock": {false, func(l *stationlink.Link, c *conn, id uint16, _ *testing.T) {
			results(l, c, []byte(`{"id":"`+string(command)+`","result":"refused","lockId":"lock-1"}`))
			l.Acknowledged(c, id, 0)
		}, site.Refused, false},
		"refused, of a wrong lock": {false, func(l *stationlink.Link, c *conn, id uint16, _ *testing.T) {
			results(l, c, []byte(`{"id":"`+string(command)+`","result":"refused","lockId":2}`))
			l.Acknowledged(c, id, 0)
		}, site.Refused, false},
		"an unknown word": {false, func(l *stationlink.Link, c *conn, id uint16, _ *testing.T) {
			results(l, c, []byte(`{"id":"`+string(command)+`","result":"rejected","lockId":"lock-2"}`))
			l.Acknowledged(c, id, 0)
		}, site.Failed, false},
		"no word": {false, func(l *stationlink.Link, c *conn, id uint16, _ *testing.T) {
			results(l, c, []byte(`{"id":"`+string(command)+`","result":1}`))
			l.Acknowledged(c, id, 0)
		}, site.Failed, false},
		"done over the next connection": {false, func(l *stationlink.Link, c *conn, _ uint16, t *testing.T) {
			l.Disconnected(c, "lost")
			<-time.After(time.Second)
			results(l, connect(t, l, &conn{number: 2, qos: 1}), result(t, command, "done"))
		}, site.Done, false},
		"rubbish":             {false, func(l *stationlink.Link, c *conn, _ uint16, _ *testing.T) { results(l, c, []byte(`{"id":7}`)) }, site.Expired, true},
		"the connection ends": {false, func(l *stationlink.Link, c *conn, _ uint16, _ *testing.T) { l.Disconnected(c, "gone") }, site.Expired, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := newLink(t)
				k := &conn{qos: 1}
				k.onSend = func(id uint16) { go c.answer(l, k, id, t) }
				connect(t, l, k)
				begun := time.Now()
				got := l.Call(cmd(5*time.Second), c.wantResult, at(yes, noop))
				if got != c.want {
					t.Errorf("outcome %s, want %s", got, c.want)
				}
				took := time.Since(begun)
				if took > 5*time.Second || got.Opened() && took == 5*time.Second {
					t.Errorf("took %s, past the deadline", took)
				}
				if got == site.Expired && took < 5*time.Second {
					t.Errorf("answered after %s, while the command may still open the door", took)
				}
				if _, reset := k.state(); (reset != "") != c.reset {
					t.Errorf("reset %q, want a reset: %v", reset, c.reset)
				}
				synctest.Wait()
			})
		})
	}
}

// A station that takes packets for MaxCommand bytes takes every command. "notAfter"
// is a time in milliseconds, of thirteen digits in three centuries.
func TestLink_Call_maxCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		k := &conn{qos: 1}
		k.onSend = func(id uint16) { go l.Acknowledged(k, id, 0) }
		connect(t, l, k)
		longest := cmd(24 * time.Hour)
		longest.Lock = site.MaxLocks
		if got := l.Call(longest, false, at(yes, noop)); got != site.Acknowledged {
			t.Fatalf("outcome %s", got)
		}
		words := string(k.payloads[0])
		if !strings.Contains(words, "notAfter") {
			words += `,"notAfter":9999999999999`
		}
		if len(words) > stationlink.MaxCommand {
			t.Errorf("%s is longer than %d bytes", words, stationlink.MaxCommand)
		}
		synctest.Wait()
	})
}

// At the deadline the command is forgotten: a PUBACK that comes a moment later
// changes nothing, and the connection has been reset.
func TestLink_Call_lateAnswerIsFollowedNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		var followed []site.Outcome
		l.Follow(func(id site.CommandID, station site.StationID, _ site.LockID, outcome site.Outcome) bool {
			if id != command || station != gate {
				t.Errorf("followed %s of %d", id, station)
			}
			followed = append(followed, outcome)
			return true
		})
		c := connect(t, l, &conn{qos: 1})
		if got := l.Call(cmd(5*time.Second), false, at(yes, noop)); got != site.Expired {
			t.Fatalf("outcome %s, want expired", got)
		}
		sent, reset := c.state()
		if reset == "" {
			t.Error("the connection was not reset at the deadline")
		}
		l.Acknowledged(c, sent[0], 0)
		results(l, c, result(t, command, "done"))
		if !slices.Equal(followed, []site.Outcome{site.Done}) {
			t.Errorf("followed %v, want the late result", followed)
		}
	})
}

func TestLink_Call_pastDeadlineSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		c := connect(t, l, &conn{qos: 1})
		late := cmd(time.Second)
		<-time.After(time.Second) // of the bubble's clock
		if got := l.Call(late, false, at(yes, noop)); got != site.Expired {
			t.Errorf("outcome %s, want expired", got)
		}
		if sent, _ := c.state(); len(sent) != 0 {
			t.Error("a command left after its deadline")
		}
	})
}

func TestLink_Call_writeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		connect(t, l, &conn{qos: 1, broken: errors.New("stalled")})
		if got := l.Call(cmd(time.Second), false, at(yes, func() { t.Error("sent was called") })); got != site.Failed {
			t.Errorf("outcome %s, want failed", got)
		}
	})
}

// A station has at most thirty-two commands under way; the next waits for a place and gets
// one, or its deadline passes and it is never sent.
func TestLink_Call_boundsWhatIsUnderWay(t *testing.T) {
	const places = 16
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		c := connect(t, l, &conn{qos: 1})
		outcomes := callMany(l, places+2, site.Local, false)
		synctest.Wait()
		sent, _ := c.state()
		if len(sent) != places {
			t.Fatalf("%d commands are under way, want %d", len(sent), places)
		}
		l.Acknowledged(c, sent[0], 0)
		synctest.Wait()
		if got := <-outcomes; got != site.Acknowledged {
			t.Errorf("outcome %s", got)
		}
		if sent, _ = c.state(); len(sent) != places+1 {
			t.Errorf("%d commands were sent, want %d: a place came free", len(sent), places+1)
		}
		for range places + 1 {
			if got := <-outcomes; got != site.Expired {
				t.Errorf("outcome %s, want expired", got)
			}
		}
		if sent, _ = c.state(); len(sent) != places+1 {
			t.Errorf("%d commands were sent, want %d still", len(sent), places+1)
		}
	})
}

// callMany makes so many calls at once.
func callMany(l *stationlink.Link, n int, origin site.Origin, wantResult bool) (outcomes chan site.Outcome) {
	outcomes = make(chan site.Outcome, n)
	for i := range n {
		go func() {
			k := cmd(5 * time.Second)
			k.ID = site.CommandID(fmt.Sprintf("%s%s%03d", command[:30], origin[:3], i))
			k.Origin = origin
			outcomes <- l.Call(k, wantResult, at(yes, noop))
		}()
	}
	return outcomes
}

// Commands that a station has acknowledged take it no room, while their results are
// waited for.
func TestLink_Call_waitsForResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		k := &conn{qos: 1}
		k.onSend = func(id uint16) { go l.Acknowledged(k, id, 0) }
		connect(t, l, k)
		outcomes := callMany(l, 40, site.Local, true)
		synctest.Wait()
		if sent, _ := k.state(); len(sent) != 40 {
			t.Errorf("%d commands wait for their results", len(sent))
		}
		for range 40 {
			<-outcomes
		}
	})
}

// A result frees no room for another command: only the acknowledgement does (MQTT 5,
// section 4.9), also where it comes after the result.
func TestLink_Call_roomAfterResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		k := connect(t, l, &conn{qos: 1, takes: 1})
		first := make(chan site.Outcome, 1)
		go func() { first <- l.Call(cmd(5*time.Second), false, at(yes, noop)) }()
		synctest.Wait()
		results(l, k, result(t, command, "done"))
		if got := <-first; got != site.Done {
			t.Errorf("outcome %s", got)
		}
		second := callMany(l, 1, site.Local, false)
		synctest.Wait()
		if sent, _ := k.state(); len(sent) != 1 {
			t.Errorf("%d commands were sent before the PUBACK of the first", len(sent))
		}
		l.Acknowledged(k, k.sent[0], 0)
		l.Acknowledged(k, k.sent[0], 0) // once more: of nothing
		synctest.Wait()
		sent, _ := k.state()
		if len(sent) != 2 || sent[1] == sent[0] {
			t.Fatalf("sent %v", sent)
		}
		l.Acknowledged(k, sent[1], 0)
		if got := <-second; got != site.Acknowledged {
			t.Errorf("outcome %s", got)
		}
		if _, reset := k.state(); reset != "" {
			t.Errorf("reset %q", reset)
		}
	})
}

// A station that answers commands and never acknowledges them takes no more some time;
// its connection is reset then. At QoS 0 there is nothing to acknowledge.
func TestLink_Call_neverAcknowledged(t *testing.T) {
	for qos := range byte(2) {
		synctest.Test(t, func(t *testing.T) {
			l, _ := newLink(t)
			k := connect(t, l, &conn{qos: qos, takes: 1})
			for i := range 2 {
				c := cmd(5 * time.Second)
				answered := make(chan site.Outcome, 1)
				go func() { answered <- l.Call(c, false, at(yes, noop)) }()
				synctest.Wait()
				results(l, k, result(t, command, "done"))
				want := site.Done
				if qos == 1 && i == 1 {
					want = site.Expired
				}
				if got := <-answered; got != want {
					t.Errorf("QoS %d, command %d: outcome %s, want %s", qos, i, got, want)
				}
			}
			if _, reset := k.state(); (reset != "") != (qos == 1) {
				t.Errorf("QoS %d: reset %q", qos, reset)
			}
		})
	}
}

// The answer to a command that is acknowledged, and whose result does not come, is in
// time: a tenth of its time before the deadline, a quarter of a second at most.
func TestLink_Call_answersBeforeTheDeadline(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		time.Second: 900 * time.Millisecond, 2500 * time.Millisecond: 2250 * time.Millisecond, 10 * time.Second: 9750 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			l, _ := newLink(t)
			k := &conn{qos: 1}
			k.onSend = func(id uint16) { go l.Acknowledged(k, id, 0) }
			connect(t, l, k)
			begun := time.Now()
			if got := l.Call(cmd(ttl), true, at(yes, noop)); got != site.Acknowledged || time.Since(begun) != want {
				t.Errorf("%s: outcome %s after %s, want %s", ttl, got, time.Since(begun), want)
			}
		})
	}
}

// A command that is given up leaves the others as they are.
func TestLink_Call_givenUpBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		k := connect(t, l, &conn{qos: 1})
		short, long := make(chan site.Outcome, 1), make(chan site.Outcome, 1)
		go func() { short <- l.Call(cmd(2*time.Second), true, at(yes, noop)) }()
		synctest.Wait()
		go func() { long <- l.Call(cmd(5*time.Second), false, at(yes, noop)) }()
		synctest.Wait()
		l.Acknowledged(k, k.sent[0], 0)
		if got := <-short; got != site.Acknowledged {
			t.Errorf("without a result: outcome %s", got)
		}
		l.Acknowledged(k, k.sent[1], 0)
		if got := <-long; got != site.Acknowledged {
			t.Errorf("the other: outcome %s", got)
		}
	})
}

// A command that has not left yet does not shorten the patience for one that leaves.
func TestLink_Call_patienceOfThoseThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		hold := make(chan struct{})
		k := &conn{qos: 1}
		first := true
		k.room = func() {
			if first {
				first = false
				<-hold
			}
		}
		k.onSend = func(id uint16) { go l.Acknowledged(k, id, 0) }
		connect(t, l, k)
		waiting := make(chan site.Outcome, 1)
		go func() { waiting <- l.Call(cmd(time.Second), false, at(yes, noop)) }()
		synctest.Wait()
		if got := l.Call(cmd(5*time.Second), false, at(yes, noop)); got != site.Acknowledged || k.patiences[0] != 5*time.Second {
			t.Errorf("outcome %s, patience %s", got, k.patiences[0])
		}
		close(hold)
		if got := <-waiting; got != site.Acknowledged || k.patiences[1] != time.Second {
			t.Errorf("outcome %s, patience %s", got, k.patiences[1])
		}
	})
}

// At QoS 0 no acknowledgement is owed: a command that was answered, and one that waits in
// vain behind another, do not end the connection.
func TestLink_Call_nothingOwedAtQoS0(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		k := connect(t, l, &conn{qos: 0, takes: 1})
		call := func(id string, in time.Duration) chan site.Outcome {
			outcome := make(chan site.Outcome, 1)
			c := cmd(in)
			c.ID = site.CommandID(string(command[:35]) + id)
			go func() { outcome <- l.Call(c, false, at(yes, noop)) }()
			synctest.Wait()
			return outcome
		}
		first := call("1", time.Second)
		results(l, k, result(t, command[:35]+"1", "done"))
		if got := <-first; got != site.Done {
			t.Errorf("outcome %s", got)
		}
		second, third := call("2", 10*time.Second), call("3", 2*time.Second)
		if got := <-third; got != site.Expired {
			t.Errorf("outcome %s", got)
		}
		if _, reset := k.state(); reset != "" {
			t.Errorf("reset %q", reset)
		}
		results(l, k, result(t, command[:35]+"2", "done"))
		if got := <-second; got != site.Done {
			t.Errorf("outcome %s", got)
		}
	})
}

// The cloud has half of the commands that a station takes unacknowledged, at most: a
// local one never waits for it.
func TestLink_Call_cloudLeavesRoom(t *testing.T) {
	for name, c := range map[string]struct{ takes, cloud, local int }{
		"not stated": {0, 8, 16},
		"many":       {1000, 8, 16},
		"few":        {5, 2, 5},
		"one":        {1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := newLink(t)
				k := connect(t, l, &conn{qos: 1, takes: c.takes})
				cloud := callMany(l, 16, site.Cloud, true)
				synctest.Wait()
				sent, _ := k.state()
				if len(sent) != c.cloud {
					t.Fatalf("%d commands of the cloud are under way, want %d", len(sent), c.cloud)
				}
				local := callMany(l, 20, site.Local, false)
				synctest.Wait()
				if sent, _ = k.state(); len(sent) != c.local {
					t.Errorf("%d commands are under way, want %d", len(sent), c.local)
				}
				for n := range 36 { // as they come
					sent, _ = k.state()
					if n == len(sent) {
						t.Fatalf("%d commands were sent", n)
					}
					l.Acknowledged(k, sent[n], 0)
					synctest.Wait()
				}
				for range 20 {
					if got := <-local; got != site.Acknowledged {
						t.Errorf("a local one: %s", got)
					}
				}
				for range 16 {
					if got := <-cloud; got != site.Acknowledged {
						t.Errorf("one of the cloud: %s", got)
					}
				}
			})
		})
	}
}

// A station that acknowledges and sends no results holds no slots.
func TestLink_Call_cloudLeavesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		k := connect(t, l, &conn{qos: 1})
		cloud := callMany(l, 64, site.Cloud, true)
		for n := 0; ; n++ {
			synctest.Wait()
			sent, _ := k.state()
			if n == len(sent) {
				break
			}
			l.Acknowledged(k, sent[n], 0)
		}
		if sent, _ := k.state(); len(sent) != 64 {
			t.Errorf("%d commands of the cloud were sent, want 64", len(sent))
		}
		local := callMany(l, 1, site.Local, false)
		synctest.Wait()
		sent, _ := k.state()
		l.Acknowledged(k, sent[len(sent)-1], 0)
		if got := <-local; got != site.Acknowledged || len(sent) != 65 {
			t.Errorf("a local one: %s, %d sent", got, len(sent))
		}
		for range 64 {
			<-cloud
		}
	})
}

// A command may have to wait in Send until another packet is written. What it says and
// whether it may be sent is asked then.
func TestLink_Call_waitsInSend(t *testing.T) {
	for name, c := range map[string]struct {
		wait     time.Duration
		end      func(l *stationlink.Link, k *conn) // after the wait
		mayLeave bool
		want     site.Outcome
		payload  string
		reset    bool
	}{
		"room":              {2 * time.Second, nil, true, site.Acknowledged, `"ttl":3}`, false},
		"not any more":      {2 * time.Second, nil, false, site.Refused, "", false},
		"too late to leave": {4600 * time.Millisecond, nil, true, site.Expired, "", false},
		"no room": {5 * time.Second, func(_ *stationlink.Link, k *conn) {
			k.broken = errors.New("late")
		}, true, site.Expired, "", true},
		"the connection ends": {2 * time.Second, func(l *stationlink.Link, k *conn) {
			k.broken, k.deaf = errors.New("closed"), true
			l.Disconnected(k, "gone")
		}, true, site.StationGone, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := newLink(t)
				k := &conn{qos: 1}
				k.room = func() {
					<-time.After(c.wait) // of the bubble's clock
					if c.end != nil {
						c.end(l, k)
					}
				}
				k.onSend = func(id uint16) { go l.Acknowledged(k, id, 0) }
				connect(t, l, k)
				begun := time.Now()
				mayLeave := func() bool { return c.mayLeave && time.Since(begun) == c.wait }
				if got := l.Call(cmd(5*time.Second), false, at(mayLeave, noop)); got != c.want {
					t.Errorf("outcome %s, want %s", got, c.want)
				}
				if got := string(slices.Concat(k.payloads...)); !strings.HasSuffix(got, c.payload) || (got == "") != (c.payload == "") {
					t.Errorf("sent %q, want …%s", got, c.payload)
				}
				if _, reset := k.state(); (reset != "") != c.reset {
					t.Errorf("reset %q, want a reset: %v", reset, c.reset)
				}
			})
		})
	}
}

func TestLink_Connected_takeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := newLink(t)
		first := connect(t, l, &conn{qos: 1})
		second := connect(t, l, &conn{qos: 1})
		if _, reset := first.state(); reset == "" {
			t.Error("the first connection was not reset")
		}
		l.Disconnected(first, "taken over") // comes after the second one's establishment
		second.onSend = func(id uint16) { go l.Acknowledged(second, id, 0) }
		if got := l.Call(cmd(5*time.Second), false, at(yes, noop)); got != site.Acknowledged {
			t.Errorf("outcome %s, want acknowledged by the second", got)
		}
		l.Disconnected(second, "gone")
		if all := p.all(); all[len(all)-1] != "disconnected 1042 gone" {
			t.Errorf("heard %v", all)
		}
	})
}

// An acknowledgement by a connection that was taken over does not count for the
// command of its successor, though the packet ids agree.
func TestLink_Acknowledged_byTheOldConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		first := connect(t, l, &conn{qos: 1})
		second := connect(t, l, &conn{qos: 1})
		second.onSend = func(id uint16) { go l.Acknowledged(first, id, 0) }
		if got := l.Call(cmd(time.Second), false, at(yes, noop)); got != site.Expired {
			t.Errorf("outcome %s, want expired", got)
		}
		synctest.Wait()
	})
}

func TestLink_Connected_refusedByPresence(t *testing.T) {
	l, p := newLink(t)
	p.refuse = errors.New("rotated")
	if err := l.Connected(&conn{qos: 1}); err == nil {
		t.Fatal("a connection with an old secret was accepted")
	}
	if got := l.Call(cmd(time.Second), false, at(yes, noop)); got != site.StationGone {
		t.Errorf("outcome %s, want offline", got)
	}
}

// A client that lost the right while the command waited is refused, and nothing is sent.
func TestLink_Call_mayNotLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		c := connect(t, l, &conn{qos: 1})
		if got := l.Call(cmd(time.Second), false, at(func() bool { return false }, noop)); got != site.Refused {
			t.Errorf("outcome %s, want refused", got)
		}
		if sent, _ := c.state(); len(sent) != 0 {
			t.Error("a command was sent")
		}
	})
}

// The station is told no more time than there is.
func TestLink_Call_ttl(t *testing.T) {
	for left, want := range map[time.Duration]string{
		5 * time.Second: `"ttl":5}`, 4950 * time.Millisecond: `"ttl":5}`, 4800 * time.Millisecond: `"ttl":4}`,
		time.Second: `"ttl":1}`, 600 * time.Millisecond: `"ttl":1}`, 500 * time.Millisecond: `"ttl":1}`, 400 * time.Millisecond: "",
	} {
		synctest.Test(t, func(t *testing.T) {
			l, _ := newLink(t)
			c := connect(t, l, &conn{qos: 1})
			got := l.Call(cmd(left), false, at(yes, noop))
			switch {
			case got != site.Expired:
				t.Errorf("%s: outcome %s", left, got)
			case want == "" && len(c.payloads) != 0:
				t.Errorf("%s: sent %s", left, c.payloads)
			case want != "" && !strings.HasSuffix(string(c.payloads[0]), want):
				t.Errorf("%s: sent %s, want %s", left, c.payloads[0], want)
			}
		})
	}
}

func TestLink_Disconnect_resets(t *testing.T) {
	l, _ := newLink(t)
	c := connect(t, l, &conn{qos: 1})
	l.Disconnect(gate)
	l.Disconnect(7) // not connected: nothing happens
	if _, reset := c.state(); reset == "" {
		t.Error("the connection was not reset")
	}
}

func TestLink_Call_payload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		c := &conn{qos: 1}
		c.onSend = func(id uint16) { go l.Acknowledged(c, id, 0) }
		connect(t, l, c)
		l.Call(cmd(5*time.Second), false, at(yes, noop))
		want := `{"id":"0190c8a0-0000-7000-8000-000000000001","command":"unlock","lockId":"lock-2","ttl":5}`
		if got := string(c.payloads[0]); got != want {
			t.Errorf("payload %s, want %s", got, want)
		}
	})
}

func FuzzLink_Result(f *testing.F) {
	f.Add([]byte(`{"id":"0190c8a0-0000-7000-8000-000000000001","result":"done","lockId":"lock-1","status":"unlocked"}`))
	f.Add([]byte(`{"id":"0190c8a0-0000-7000-8000-000000000001","result":"failed","lockId":7,"status":null}`))
	f.Add([]byte(`{"id":"0190C8A000007000800000000000000X","result":"done"}`))
	f.Add([]byte(`[]`))
	f.Add([]byte{0xff})
	f.Fuzz(func(_ *testing.T, payload []byte) {
		l := stationlink.New(&presence{}, &health.Registry{}, metric.New(), slog.New(slog.DiscardHandler))
		c := &conn{qos: 1}
		if err := l.Connected(c); err == nil {
			results(l, c, payload)
		}
	})
}

// The gateway stands still over the deadline, and reads the station's answer before its own
// timer has run: that is no success. The answer is followed, as late.
func TestLink_Call_answerReadAfterTheDeadline(t *testing.T) {
	const id = command
	for name, c := range map[string]struct {
		wantResult bool
		answer     func(l *stationlink.Link, k *conn, packet uint16, freeze func())
		want       site.Outcome
		followed   []site.Outcome
	}{
		"puback": {false, func(l *stationlink.Link, k *conn, packet uint16, freeze func()) {
			freeze()
			l.Acknowledged(k, packet, 0)
		}, site.Expired, []site.Outcome{site.Acknowledged}},
		"puback that refuses": {false, func(l *stationlink.Link, k *conn, packet uint16, freeze func()) {
			freeze()
			l.Acknowledged(k, packet, 0x83)
		}, site.Expired, []site.Outcome{site.Refused}},
		"result": {false, func(l *stationlink.Link, k *conn, _ uint16, freeze func()) {
			freeze()
			results(l, k, []byte(`{"id":"`+string(id)+`","result":"done"}`))
		}, site.Expired, []site.Outcome{site.Done}},
		"read in time, taken late": {false, func(l *stationlink.Link, k *conn, packet uint16, freeze func()) {
			l.Acknowledged(k, packet, 0)
			freeze()
		}, site.Expired, []site.Outcome{site.Acknowledged}},
		"result of an acknowledged one": {true, func(l *stationlink.Link, k *conn, packet uint16, freeze func()) {
			l.Acknowledged(k, packet, 0)
			freeze()
			results(l, k, []byte(`{"id":"`+string(id)+`","result":"done"}`))
		}, site.Acknowledged, []site.Outcome{site.Done}},
		"puback before the result": {true, func(l *stationlink.Link, k *conn, packet uint16, freeze func()) {
			freeze()
			l.Acknowledged(k, packet, 0)
			results(l, k, []byte(`{"id":"`+string(id)+`","result":"done"}`))
		}, site.Expired, []site.Outcome{site.Done, site.Acknowledged}},
		"the connection ends": {false, func(l *stationlink.Link, k *conn, _ uint16, freeze func()) {
			freeze()
			l.Disconnected(k, "lost")
		}, site.Expired, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := newLink(t)
				clock := &hand{now: time.Hour}
				l.SetClock(clock.read)
				var followed []site.Outcome
				l.Follow(func(_ site.CommandID, _ site.StationID, _ site.LockID, outcome site.Outcome) bool {
					followed = append(followed, outcome)
					return true
				})
				k := &conn{qos: 1}
				k.onSend = func(packet uint16) {
					c.answer(l, k, packet, func() { clock.now += 5 * time.Second }) // no timer of the bubble runs
				}
				connect(t, l, k)
				if got := l.Call(cmd(5*time.Second), c.wantResult, at(yes, noop)); got != c.want {
					t.Errorf("outcome %s, want %s", got, c.want)
				}
				if !slices.Equal(followed, c.followed) {
					t.Errorf("followed %v, want %v", followed, c.followed)
				}
				if _, reset := k.state(); reset != "" {
					t.Errorf("reset: %s", reset)
				}
			})
		})
	}
}

// While several commands are in flight, the kernel has the least time that any of them
// left with.
func TestLink_Call_patience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLink(t)
		k := connect(t, l, &conn{qos: 1})
		var calls sync.WaitGroup
		call := func(n int, left time.Duration) {
			c := cmd(left)
			c.ID = site.CommandID(fmt.Sprintf("%s%012d", command[:24], n))
			calls.Go(func() { l.Call(c, false, at(yes, noop)) })
			synctest.Wait()
		}
		call(1, 5*time.Second)
		call(2, 2*time.Second)
		call(3, 5*time.Second)
		l.Acknowledged(k, k.sent[1], 0)
		synctest.Wait()
		call(4, 6*time.Second)
		calls.Wait()
		want := []time.Duration{5 * time.Second, 2 * time.Second, 2 * time.Second, 5 * time.Second}
		if !slices.Equal(k.patiences, want) {
			t.Errorf("patiences %v, want %v", k.patiences, want)
		}
	})
}
