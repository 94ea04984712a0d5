package homeassistant_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/homeassistant"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/door/station"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

const (
	seen    = site.StationID(1) // its mode is state
	opens   = site.StationID(2) // state+unlock
	hidden  = site.StationID(3) // off
	gateway = site.GatewayID("a0e1")
)

// house is what a link has around it.
type house struct {
	mu      sync.Mutex
	modes   map[site.StationID]site.HomeAssistantMode
	records []site.Record
	asked   []unlock.Request
	answers map[string]bool // by the idempotency key and the lock
	block   chan struct{}   // nil: an unlock ends at once
	doubt   atomic.Bool     // the clock is not trusted
}

func newHouse() *house {
	return &house{answers: map[string]bool{}, modes: map[site.StationID]site.HomeAssistantMode{
		seen: site.HomeAssistantState, opens: site.HomeAssistantUnlock, hidden: site.HomeAssistantOff,
	}}
}

func (h *house) link() *homeassistant.Link {
	return homeassistant.New(homeassistant.Config{
		Prefix: "homeassistant", Gateway: gateway, Journal: h, Stations: h, Unlocker: h, Clock: h,
		Logger: slog.New(slog.DiscardHandler), Health: new(health.Registry), Metrics: metric.New(),
	})
}

func (h *house) Now() time.Time { return time.Now() }
func (h *house) Holdover() bool { return !h.doubt.Load() }

func (h *house) Station(id site.StationID) (site.Station, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mode, enrolled := h.modes[id]
	return site.Station{ID: id, Locks: 2, HomeAssistant: mode}, enrolled
}

func (h *house) Firmware(site.StationID) string                             { return "" }
func (h *house) Stations() []site.Station                                   { return nil }
func (h *house) State(site.StationID) (s site.StationState, ok bool)        { return s, false }
func (h *house) EventsSince(uint64, site.StationID) ([]station.Event, bool) { return nil, false }
func (h *house) Latest() uint64                                             { return 0 }
func (h *house) Subscribe() (<-chan struct{}, func())                       { return nil, func() {} }

func (h *house) AppendLater(r site.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, r)
}

// Unlock answers as package unlock does: a right that is missing is denied, and a key that
// came before sends nothing.
func (h *house) Unlock(_ context.Context, req unlock.Request) (unlock.Answer, error) {
	if !req.MayLeave() || req.Lock > 2 {
		return unlock.Answer{}, fault.New(fault.NotFound, "Station not found")
	}
	h.mu.Lock()
	key := req.Station.String() + req.Lock.String() + req.IdempotencyKey
	again := h.answers[key]
	h.answers[key] = true
	if !again {
		h.asked = append(h.asked, req)
	}
	h.mu.Unlock()
	if h.block != nil {
		<-h.block
	}
	return unlock.Answer{Replayed: again, Outcome: site.Done}, nil
}

func (h *house) unlocks() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

// press is what a lock of Home Assistant sends, so old.
func press(id site.StationID, lock string, age time.Duration) mqttclient.Message {
	return pressAt(id, lock, time.Now().Add(-age))
}

func pressAt(id site.StationID, lock string, when time.Time) mqttclient.Message {
	at := float64(when.UnixMicro()) / 1e6
	return mqttclient.Message{
		Topic:   fmt.Sprintf("gatehouse/%s/%d/%s/set", gateway, id, lock),
		Payload: fmt.Appendf(nil, `{"command":"UNLOCK","at":%f}`, at), QoS: 1,
	}
}

// A command that is as it must be is carried out once, as Home Assistant's.
func TestLink_unlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l, m := h.link(), press(opens, "lock-2", time.Second)
		for range 3 {
			l.Take(m, true)
			l.Wait()
		}
		if h.unlocks() != 1 {
			t.Fatalf("%d unlocks", h.unlocks())
		}
		r := h.asked[0]
		if r.Actor.Origin != site.Integration || r.Station != opens || r.Lock != 2 || r.Until.After(time.Now().Add(9*time.Second)) {
			t.Errorf("asked for %+v", r)
		}
		if h.records[0].Detail != "the command came before" || h.records[0].Origin != site.Integration || len(h.records) != 1 {
			t.Errorf("recorded %+v", h.records)
		}
		if !r.MayLeave() {
			t.Error("it may not leave")
		}
		h.modes[opens] = site.HomeAssistantState
		if r.MayLeave() {
			t.Error("it leaves after the station was switched to state")
		}
		delete(h.modes, opens)
		if r.MayLeave() {
			t.Error("it leaves after the station was removed")
		}
	})
}

// hostile returns one of the commands that must open nothing.
func hostile(random *rand.Rand) mqttclient.Message {
	late := 10*time.Second + time.Millisecond + time.Duration(random.Int64N(int64(1000*time.Hour)))
	m := press(opens, "lock-1", 0)
	switch random.IntN(9) {
	case 0:
		m = press(opens, "lock-1", time.Microsecond+time.Duration(random.Int64N(int64(9*time.Second))))
		m.Retained = true
	case 1:
		m = press(opens, "lock-1", late)
	case 2:
		m = press(opens, "lock-1", -time.Second-late)
	case 3: // a station that is not granted, and one that is not there
		m = press([]site.StationID{seen, hidden, 4, 1 << 30}[random.IntN(4)], "lock-1", 0)
	case 4:
		m = press(opens, []string{"1", "lock-0", "lock-3", "lock-01", "lock-1/set", "+", "", "lock-99999999999999999999"}[random.IntN(8)], 0)
	case 5: // a foreign topic
		m.Topic = []string{
			"gatehouse/other/2/lock-1/set", "gatehouse/a0e1/2/lock-1/set/", "/gatehouse/a0e1/2/lock-1/set", "gatehouse/a0e1/+2/lock-1/set", "gatehouse/a0e1/02/lock-1/set",
			"gatehouse/a0e1/2/lock-1/get", "gateways/a0e1/command", "homeassistant/status", "stations/2/command", "gatehouse/a0e1", "", "gatehouse/a0e1/2/state",
		}[random.IntN(12)]
	case 6: // malformed
		m.Payload = []byte([]string{
			"UNLOCK", "", "{", "null", "[]", `{"command":"UNLOCK"}`, `{"at":1e400,"command":"UNLOCK"}`, `{"command":"OPEN","at":` + string(m.Payload[25:]),
			`{"command":"UNLOCK","at":"now"}`, `{"command":"UNLOCK","at":-1e300}`, `{"command":"UNLOCK","at":1e300}`, `{"command":["UNLOCK"]}`, strings.Repeat("[", 9000),
		}[random.IntN(13)])
	case 7: // cut or changed on its way
		cut := random.IntN(len(m.Payload))
		m.Payload = m.Payload[:cut]
	case 8:
		m.Payload = []byte(strings.Replace(string(m.Payload), "UNLOCK", "LOCK", 1))
	}
	return m
}

// 100,000 commands that are retained, late, from the future, foreign, malformed or not
// granted, and as many copies of one that was carried out, open nothing and cost a bounded
// number of records.
func TestAttack_houseCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, random := newHouse(), rand.New(rand.NewPCG(1, 2))
		l := h.link()
		first := press(opens, "lock-1", 0)
		l.Take(first, true)
		l.Wait()
		for n := range 100_000 {
			l.Take(hostile(random), true)
			if n%10 == 0 {
				l.Take(first, true)
				l.Wait()
			}
		}
		l.Wait()
		if h.unlocks() != 1 {
			t.Errorf("%d unlocks; the last is %+v", h.unlocks()-1, h.asked[len(h.asked)-1])
		}
		h.doubt.Store(true)
		l.Take(press(opens, "lock-1", time.Millisecond), true)
		l.Wait()
		if h.unlocks() != 1 {
			t.Error("an unlock while the clock is not trusted")
		}
		if n := len(h.records); n > 6 {
			t.Errorf("%d records", n)
		}
	})
}

// Commands that take long, without end, hold a bounded number of goroutines.
func TestLink_busy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.block = make(chan struct{})
		l := h.link()
		for n := range 1000 {
			l.Take(press(opens, "lock-1", time.Duration(n)*time.Millisecond), true)
		}
		synctest.Wait()
		if n := h.unlocks(); n != 16 {
			t.Errorf("%d are under way", n)
		}
		close(h.block)
		l.Wait()
	})
}

// A broker that nothing authenticates opens no door: its commands are denied.
func TestAttack_houseUnauthenticated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		l := h.link()
		l.Take(press(opens, "lock-1", 0), false)
		l.Wait()
		if h.unlocks() != 0 {
			t.Error("an unlock")
		}
		l.PlainUnlock = true
		l.Take(press(opens, "lock-1", 0), false)
		l.Wait()
		if h.unlocks() != 1 {
			t.Error("no unlock, although the configuration asks for it")
		}
	})
}

// What is not understood has a record, one for many.
func TestLink_malformed(t *testing.T) {
	for name, change := range map[string]func(*mqttclient.Message){
		"bare":      func(m *mqttclient.Message) { m.Payload = []byte("UNLOCK") },
		"no time":   func(m *mqttclient.Message) { m.Payload = []byte(`{"command":"UNLOCK"}`) },
		"no number": func(m *mqttclient.Message) { m.Payload = []byte(`{"command":"UNLOCK","at":"1764000000"}`) },
		"open":      func(m *mqttclient.Message) { m.Payload = []byte(`{"command":"OPEN","at":1764000000}`) },
		"empty":     func(m *mqttclient.Message) { m.Payload = nil },
		"no lock":   func(m *mqttclient.Message) { m.Topic = strings.Replace(m.Topic, "lock-1", "1", 1) },
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse()
			l, m := h.link(), press(opens, "lock-1", 0)
			change(&m)
			for range 100 {
				l.Take(m, true)
			}
			l.Wait()
			if len(h.records) != 1 || h.records[0].Kind != site.KindUnlock || h.records[0].Outcome != site.Refused || h.records[0].Station != opens ||
				!strings.HasPrefix(h.records[0].Detail, "the command is not understood") {
				t.Errorf("%s: recorded %+v", name, h.records)
			}
		})
	}
}
