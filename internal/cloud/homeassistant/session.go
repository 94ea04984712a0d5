package homeassistant

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

const (
	// breath is how far apart two rounds are at least: what changes meanwhile is sent once.
	breath = 100 * time.Millisecond
	// beat is how far apart they are at most.
	beat = 2 * time.Second
	// batch is how many messages the broker may have without having acknowledged one, and
	// patience for how long.
	batch    = 64
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

// errNoPuback ends a connection whose broker takes messages and acknowledges none.
var errNoPuback = errors.New("the broker does not acknowledge what it is sent")

// session is one connection. The goroutine of serve does everything but to receive.
type session struct {
	*Link
	conn    *mqttclient.Conn
	flight  []*mqttclient.Delivery
	shown   map[site.StationID]*shown
	due     map[site.StationID]bool // to be sent, as far as it is another
	seen    uint64                  // the newest event of stations that was looked at
	read    uint64                  // the newest record
	opening map[doorway]opening
	all     time.Time // when everything was last sent

	wake chan struct{} // capacity 1
	mu   sync.Mutex    // mu guards what follows
	born bool          // a Home Assistant has come
	ask  map[site.StationID]bool
	left map[site.StationID]int // the locks of the states that the broker has kept
}

// shown is what was sent of a station in this session.
type shown struct {
	station site.Station
	form    string // of what the configuration depends on beside
	state   string
	locks   int // the most that Home Assistant may have
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
		Link: l, shown: make(map[site.StationID]*shown), due: make(map[site.StationID]bool), opening: make(map[doorway]opening),
		wake: make(chan struct{}, 1), ask: make(map[site.StationID]bool), left: make(map[site.StationID]int),
	}
}

// receive takes a message of the broker; it is called by many goroutines at once.
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
		if err == nil && lock.String() == parts[1] && s.handle(id, lock, m) {
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
	s.seen, s.read = s.Stations.Latest(), s.Journal.Latest()
	s.sendAll()
	var birth <-chan time.Time // nil: none is to be answered
	for {
		if born := s.step(ctx); born && birth == nil {
			birth = time.After(max(birthWait+rand.N(birthSpread), rebirth-time.Since(s.all))) //nolint:gosec // spreads load, guards nothing
		}
		if err := s.settle(); err != nil {
			return err
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
			s.sendAll()
		case <-time.After(beat):
		}
	}
}

// sendAll has everything sent again.
func (s *session) sendAll() {
	s.all = time.Now()
	s.send(mqttclient.Message{Topic: s.configTopic(0), Payload: s.gatewayConfig(), Retained: true})
	s.send(mqttclient.Message{Topic: s.statusTopic(), Payload: []byte(site.Online), Retained: true})
	for _, was := range s.shown {
		*was = shown{locks: was.locks}
	}
}

// step sends what has changed. It reports whether a Home Assistant has come.
func (s *session) step(ctx context.Context) (born bool) {
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
			was.state, s.due[id] = "", true
		}
	}
	events, gap := s.Stations.EventsSince(s.seen, 0)
	for _, event := range events {
		s.seen, s.due[event.State.ID] = event.Number, true
	}
	s.follow(ctx)
	s.look(gap)
	return born
}

// look sends the stations that are due or have another enrolment, or all of them, and
// removes those that are gone or switched off.
func (s *session) look(all bool) {
	if all {
		s.seen = s.Stations.Latest()
	}
	for at, o := range s.opening {
		if time.Since(o.since) > openingLife { // its record is lost
			delete(s.opening, at)
			s.due[at.station] = true
		}
	}
	exposed := make(map[site.StationID]bool)
	for _, st := range s.Stations.Stations() {
		if st.HomeAssistant == site.HomeAssistantOff {
			continue
		}
		exposed[st.ID] = true
		if was := s.shown[st.ID]; all || was == nil || was.station != st || s.due[st.ID] {
			s.show(st)
		}
	}
	clear(s.due)
	for id := range s.shown {
		if !exposed[id] { // the state last: while it is there, so may the configuration be
			delete(s.shown, id)
			s.send(mqttclient.Message{Topic: s.configTopic(id), Retained: true})
			s.send(mqttclient.Message{Topic: s.topic(id, stateLeaf), Retained: true})
		}
	}
}

// show sends what is another of a station.
func (s *session) show(st site.Station) {
	now, enrolled := s.Stations.State(st.ID)
	if !enrolled {
		return
	}
	was := s.shown[st.ID]
	if was == nil {
		was = new(shown)
		s.shown[st.ID] = was
	}
	if state := s.stateOf(now); state != was.state {
		was.state = state
		s.send(mqttclient.Message{Topic: s.topic(st.ID, stateLeaf), Payload: []byte(state), Retained: true})
	}
	if form := formOf(now); st != was.station || form != was.form {
		was.station, was.form, was.locks = st, form, max(was.locks, st.Locks)
		s.send(mqttclient.Message{Topic: s.configTopic(st.ID), Payload: s.stationConfig(st, now, was.locks), Retained: true})
	}
}

// follow reads new records: what happened at stations goes out as events, and commands
// that are under way show as unlocking.
func (s *session) follow(ctx context.Context) {
	if s.read >= s.Journal.Latest() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	page, err := s.Store.Outbox(ctx, s.read, pageSize)
	if err != nil {
		return // the next round tries again
	}
	for _, entry := range page {
		s.read = entry.Seq
		var r site.Record
		if json.Unmarshal(entry.Body, &r) != nil || r.Station == 0 {
			continue
		}
		if at := (doorway{r.Station, r.Lock}); r.Kind == site.KindUnlock && r.Command != "" {
			if r.Outcome == site.Requested {
				s.opening[at] = opening{r.Command, time.Now()}
			} else if s.opening[at].command == r.Command {
				delete(s.opening, at)
			}
			s.due[r.Station] = true
		}
		if st, enrolled := s.Stations.Station(r.Station); enrolled && st.HomeAssistant != site.HomeAssistantOff && isEvent(r) {
			s.send(mqttclient.Message{Topic: s.topic(r.Station, eventLeaf), Payload: eventOf(r)})
		}
	}
	if len(page) == pageSize {
		s.note(func() {})
	}
}

// send publishes at QoS 1. Where the broker is slow, it waits for it, and nothing else does.
func (s *session) send(m mqttclient.Message) {
	m.QoS = 1
	s.flight = append(s.flight, s.conn.Publish(m))
	if len(s.flight) >= batch {
		select {
		case <-s.flight[len(s.flight)-batch].Done():
		case <-time.After(patience):
			s.conn.Close()
		}
	}
}

// settle waits until the broker has acknowledged everything.
func (s *session) settle() error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for _, d := range s.flight {
		select {
		case <-d.Done():
			if err := d.Err(); err != nil {
				return err
			}
		case <-timer.C:
			return errNoPuback
		}
	}
	s.flight = s.flight[:0]
	return nil
}
