package homeassistant

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

const (
	// breath is how far apart two rounds are at least: what changes meanwhile is sent once.
	breath = 200 * time.Millisecond
	// beat is how far apart they are at most.
	beat = 5 * time.Second
	// patience is how long the broker may take to acknowledge a message.
	patience = 20 * time.Second
	// pageSize is how many records are read in a round, and storePatience for how long.
	pageSize      = 100
	storePatience = 5 * time.Second
	// birthWait is the least wait after the birth of a Home Assistant, and birthSpread what
	// is added at random; rebirth is how far apart they are answered.
	birthWait, birthSpread = time.Second, 4 * time.Second
	rebirth                = 10 * time.Second
	// openingLife is longer than any command is under way.
	openingLife = 2 * time.Minute
	// maxLeft bounds the states that the broker has kept and that are looked at.
	maxLeft = 4096
)

// session is one connection. The goroutine of serve does everything but to receive.
type session struct {
	*Link
	conn    *mqttclient.Conn
	shown   map[site.StationID]*shown
	read    uint64 // the newest record that was looked at
	opening map[doorway]opening
	all     time.Time // when everything was last sent

	// authenticated reports whether the broker is known to be the one that is meant: see
	// [mqttclient.Config].
	authenticated atomic.Bool

	wake chan struct{} // capacity 1
	mu   sync.Mutex    // mu guards what follows
	born bool          // Home Assistant has started since
	ask  map[site.StationID]bool
	left map[site.StationID]int // the locks of the states that the broker has kept
}

// shown is what Home Assistant has of a station.
type shown struct {
	form  string // of the discovery; "" is to be sent
	state string // "" is to be sent
	locks int
}

// doorway identifies a lock, by its id as records have it.
type doorway struct {
	station site.StationID
	lock    string
}

// opening is a command that is under way.
type opening struct {
	command site.CommandID
	since   time.Time
}

func newSession(l *Link) *session {
	return &session{
		Link: l, shown: make(map[site.StationID]*shown), opening: make(map[doorway]opening),
		wake: make(chan struct{}, 1), ask: make(map[site.StationID]bool), left: make(map[site.StationID]int),
	}
}

// receive takes a message of the broker, one after the other.
func (s *session) receive(m mqttclient.Message) {
	if m.Topic == s.Prefix+"/status" {
		if !m.Retained && string(m.Payload) == string(site.Online) {
			s.note(func() { s.born = true })
		}
		return
	}
	rest, _ := strings.CutPrefix(m.Topic, s.base+"/")
	parts := strings.Split(rest, "/")
	id, err := site.ParseStationID(parts[0])
	switch {
	case err != nil || id.String() != parts[0]:
	case len(parts) == 2 && parts[1] == stateLeaf && m.Retained: // else it is this session's own
		var state stationState
		_ = json.Unmarshal(m.Payload, &state) // whatever it is, it has to go
		s.note(func() {
			if len(s.left) < maxLeft {
				s.left[id] = min(len(state.Locks), site.MaxLocks)
			}
		})
	case len(parts) == 3 && parts[2] == commandLeaf:
		lock, err := site.ParseLockID(parts[1])
		if err != nil || lock.String() != parts[1] {
			s.refuse(id, 0, malformed)
		} else if s.handle(id, lock, m) {
			s.note(func() { s.ask[id] = true })
		}
	}
}

// note changes what the round looks at, and wakes it up.
func (s *session) note(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// serve sends what changes until the connection is lost, with the reason.
func (s *session) serve(ctx context.Context) error {
	records, leaveJournal := s.Journal.Subscribe()
	defer leaveJournal()
	events, leaveStations := s.Stations.Subscribe()
	defer leaveStations()
	s.read = s.Journal.Latest()
	s.sendAll(ctx)
	var birth <-chan time.Time // nil: none is to be answered
	for {
		if born := s.round(ctx); born && birth == nil {
			birth = time.After(max(birthWait+rand.N(birthSpread), rebirth-time.Since(s.all))) //nolint:gosec // spreads load, guards nothing
		}
		select {
		case <-s.conn.Lost():
			return s.conn.Err()
		case <-time.After(breath):
		}
		select {
		case <-s.conn.Lost():
			return s.conn.Err()
		case <-records:
		case <-events:
		case <-s.wake:
		case <-birth:
			birth = nil
			s.sendAll(ctx)
		case <-time.After(beat):
		}
	}
}

// sendAll has everything sent again.
func (s *session) sendAll(ctx context.Context) {
	s.all = time.Now()
	s.retain(ctx, s.configTopic(0), s.gatewayConfig())
	s.retain(ctx, s.statusTopic(), []byte(site.Online))
	for _, was := range s.shown {
		was.form, was.state = "", ""
	}
}

// round sends what has changed, and removes the stations that are gone or switched off. It
// reports whether Home Assistant has started.
func (s *session) round(ctx context.Context) (born bool) {
	s.mu.Lock()
	born, s.born = s.born, false
	asked, left := s.ask, s.left
	s.ask, s.left = make(map[site.StationID]bool), make(map[site.StationID]int)
	s.mu.Unlock()
	for id, locks := range left {
		if was := s.shown[id]; was == nil || locks > was.locks {
			s.shown[id] = &shown{locks: locks}
		}
	}
	for id := range asked {
		if was := s.shown[id]; was != nil {
			was.state = ""
		}
	}
	s.follow(ctx)
	exposed := make(map[site.StationID]bool)
	all := s.Stations.Stations()
	s.judge(all)
	for _, st := range all {
		if now, enrolled := s.Stations.State(st.ID); enrolled && st.HomeAssistant != site.HomeAssistantOff {
			exposed[st.ID] = true
			s.show(ctx, st, now)
		}
	}
	for id := range s.shown {
		if !exposed[id] { // the state last: while it is there, so may the discovery be
			delete(s.shown, id)
			s.retain(ctx, s.configTopic(id), nil)
			s.retain(ctx, s.topic(id, stateLeaf), nil)
		}
	}
	return born
}

// show sends what has changed of a station. One that has lost locks is removed first, so that
// these disappear.
func (s *session) show(ctx context.Context, st site.Station, now site.StationState) {
	was := s.shown[st.ID]
	if was == nil {
		was = new(shown)
		s.shown[st.ID] = was
	}
	if len(now.Locks) < was.locks {
		s.retain(ctx, s.configTopic(st.ID), nil)
		was.form = ""
	}
	was.locks = len(now.Locks)
	if state := s.stateOf(now); state != was.state {
		was.state = state
		s.retain(ctx, s.topic(st.ID, stateLeaf), []byte(state))
	}
	if form := s.formOf(st, now); form != was.form {
		was.form = form
		s.retain(ctx, s.configTopic(st.ID), s.stationConfig(st, now))
	}
}

// follow reads new records: what happened at stations goes out as events, and commands
// that are under way show as unlocking.
func (s *session) follow(ctx context.Context) {
	if s.read >= s.Journal.Latest() {
		return
	}
	reading, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	page, err := s.Store.Outbox(reading, s.read, pageSize)
	if err != nil {
		return // the next round tries again
	}
	for _, entry := range page {
		s.read = entry.Seq
		var r site.Record
		if json.Unmarshal(entry.Body, &r) != nil || r.Station == 0 {
			continue
		}
		if at := (doorway{r.Station, r.Lock}); r.Kind == site.KindUnlock && r.Outcome == site.Requested {
			s.opening[at] = opening{r.Command, time.Now()}
		} else if r.Kind == site.KindUnlock && s.opening[at].command == r.Command {
			delete(s.opening, at)
		}
		if st, enrolled := s.Stations.Station(r.Station); enrolled && st.HomeAssistant != site.HomeAssistantOff && isEvent(r) {
			s.send(ctx, mqttclient.Message{Topic: s.topic(r.Station, eventLeaf), Payload: eventOf(r)})
		}
	}
	if len(page) == pageSize {
		s.note(func() {})
	}
}

// retain publishes what the broker is to keep; nothing removes it.
func (s *session) retain(ctx context.Context, topic string, payload []byte) {
	s.send(ctx, mqttclient.Message{Topic: topic, Payload: payload, Retained: true})
}

// send publishes, and waits for the broker where that is slow; nothing else does. Without an
// acknowledgement the connection is over, and the next session sends everything.
func (s *session) send(ctx context.Context, m mqttclient.Message) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = s.conn.Deliver(ctx, m)
}
