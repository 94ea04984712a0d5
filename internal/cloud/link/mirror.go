package link

import (
	"context"
	"maps"
	"slices"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

const (
	// stateInterval is how often the state of one station may be published.
	stateInterval = time.Second
	// stateWindow is how many states may be in flight.
	stateWindow = 32
	// lookInterval is how often the stations are listed, which finds those that were
	// enrolled and have not changed since.
	lookInterval = 10 * time.Second
	// dueInterval is how often states that wait for their second are looked at.
	dueInterval = 100 * time.Millisecond
)

// mirror keeps the retained state of every station at the broker in one session.
type mirror struct {
	*session
	there    map[site.StationID]bool      // stations that may have a state at the broker, as kept on disk
	last     map[site.StationID]time.Time // when each was last sent in this session; enrolled stations only
	queue    []site.StationID             // to be sent; no station twice
	seen     uint64                       // the newest event that was looked at
	looked   time.Time                    // when the stations were last listed
	inFlight int
	unkept   bool // the disk does not have there as it is
	recalled bool // there has what an earlier session has left at the broker
}

func newMirror(s *session) *mirror {
	return &mirror{session: s, there: make(map[site.StationID]bool), last: make(map[site.StationID]time.Time), seen: s.Stations.Latest()}
}

// step sends the states that are due, and returns when to come back.
func (m *mirror) step(ctx context.Context) time.Duration {
	if m.enrolled.Swap(false) || time.Since(m.looked) >= lookInterval {
		m.look(ctx)
	}
	if m.Stations.Latest() != m.seen {
		m.follow(ctx)
	}
	now := time.Now()
	m.queue = slices.DeleteFunc(m.queue, func(id site.StationID) bool {
		if m.inFlight >= stateWindow || now.Sub(m.last[id]) < stateInterval {
			return false
		}
		m.publish(id, now)
		return true
	})
	if len(m.queue) > 0 {
		return dueInterval
	}
	return beat
}

// look queues stations that were enrolled and those that were removed since the last
// look. It keeps which may have a state at the broker before any is sent there.
func (m *mirror) look(ctx context.Context) {
	m.looked = time.Now()
	m.recall(ctx)
	enrolled := make(map[site.StationID]bool)
	grown := false
	for _, s := range m.Stations.Stations() {
		enrolled[s.ID] = true
		if _, known := m.last[s.ID]; !known {
			m.last[s.ID] = time.Time{}
			m.add(s.ID)
		}
		grown = grown || !m.there[s.ID]
		m.there[s.ID] = true
	}
	for id := range m.there {
		if !enrolled[id] {
			delete(m.last, id)
			m.add(id)
		}
	}
	if grown || m.unkept {
		m.keep(ctx)
	}
}

// recall reads which stations may have a state at the broker, once: until that has
// worked, nothing is written over it.
func (m *mirror) recall(ctx context.Context) {
	if m.recalled {
		return
	}
	ids, err := m.Store.CloudStations(ctx)
	if err != nil {
		if ctx.Err() == nil { // else the connection has ended, and the next one reads them
			m.Logger.Warn("states of removed stations may stay at the cloud for now", "error", err)
		}
		return
	}
	m.recalled = true
	for _, id := range ids {
		m.there[id] = true
	}
}

// follow queues the stations that have changed.
func (m *mirror) follow(ctx context.Context) {
	latest := m.Stations.Latest()
	events, gap := m.Stations.EventsSince(m.seen, 0)
	if gap {
		for id := range m.last {
			m.add(id)
		}
	}
	m.seen = latest
	for _, event := range events {
		m.seen = max(m.seen, event.Number)
		m.add(event.State.ID)
	}
	if slices.ContainsFunc(m.queue, func(id site.StationID) bool { return !m.there[id] }) {
		m.look(ctx) // enrolled a moment ago: kept before it is sent
	}
}

func (m *mirror) add(id site.StationID) {
	if !slices.Contains(m.queue, id) {
		m.queue = append(m.queue, id)
	}
}

// publish sends the present state; of a station that is gone the empty payload, which
// removes what is retained (MQTT 3.1.1, section 3.3.1.3).
func (m *mirror) publish(id site.StationID, now time.Time) {
	var payload []byte
	state, enrolled := m.Stations.State(id)
	if enrolled {
		payload = api.Encode(state)
		m.last[id] = now
	} else if !m.there[id] {
		return
	}
	m.inFlight++
	m.send(mqttclient.Message{Topic: api.StateTopic(m.Gateway, id), Retained: true, Payload: payload}, func() {
		m.inFlight--
		if _, again := m.Stations.State(id); !enrolled && !again {
			delete(m.there, id)
			m.unkept = true
			m.looked = time.Time{}
		}
	})
}

// keep writes down which stations may have a state at the broker.
func (m *mirror) keep(ctx context.Context) {
	if m.unkept = !m.recalled; m.unkept {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	err := m.Store.SaveCloudStations(ctx, slices.Sorted(maps.Keys(m.there)))
	if m.unkept = err != nil; m.unkept {
		m.Logger.Warn("the list of states at the cloud cannot be saved", "error", err)
	}
}
