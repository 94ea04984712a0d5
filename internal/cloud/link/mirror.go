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
	// lookInterval is how often the stations are listed at least: the disk may have failed.
	lookInterval = 10 * time.Second
	// dueInterval is how often states that wait for their second are looked at, and how often
	// the stations are listed at most.
	dueInterval = 100 * time.Millisecond
	// searchTime is how long after it has connected the link searches for states of stations that are
	// unknown. Brokers send what is retained at once.
	searchTime = time.Minute
	// maxUnknown bounds the states found that have not been removed yet; more are found by the next
	// search.
	maxUnknown = 4096
)

// mirror keeps the retained state of every station at the broker in one session.
type mirror struct {
	*session
	there    map[site.StationID]bool      // stations that may have a state at the broker
	recalled bool                         // there has what an earlier session has left at the broker
	kept     bool                         // the disk has there as it is
	last     map[site.StationID]time.Time // when each was last sent in this session; enrolled stations only
	due      map[site.StationID]bool      // to be sent
	seen     uint64                       // the newest event that was looked at
	changed  bool                         // stations may have been enrolled or removed
	looked   time.Time                    // when the stations were last listed
	searches time.Time                    // until when it searches; zero: not, or no more
	found    bool                         // a state of a station that is unknown
}

func newMirror(s *session) *mirror {
	m := &mirror{
		session: s, there: make(map[site.StationID]bool), last: make(map[site.StationID]time.Time),
		due: make(map[site.StationID]bool), seen: s.Stations.Latest(),
	}
	if s.unknown != nil {
		m.searches = time.Now().Add(searchTime)
	}
	return m
}

// find notes a state that the broker had retained, unless its station is enrolled. Nothing
// that a broker makes up goes to disk.
func (s *session) find(id site.StationID) {
	if _, enrolled := s.Stations.State(id); enrolled {
		return
	}
	select {
	case s.unknown <- id:
		s.wakeUp()
	default:
	}
}

// search removes the states that were found, and ends the search in time. The list on disk does
// not have their stations where it is older than they are, such as after a restore.
func (m *mirror) search() {
	for len(m.unknown) > 0 && m.beside() < maxFlight {
		id := <-m.unknown
		m.found = true
		if _, enrolled := m.Stations.State(id); !enrolled {
			m.send(mqttclient.Message{Topic: api.StateTopic(m.Gateway, id), Retained: true}, func() {})
		}
	}
	if m.searches.IsZero() || time.Now().Before(m.searches) {
		return
	}
	m.searches = time.Time{}
	m.conn.Unsubscribe(api.StateFilter(m.Gateway))
	m.searched.Store(!m.found) // what was found may be there until the broker has acknowledged its removal
}

// step sends the states that are due, and returns when to come back.
func (m *mirror) step(ctx context.Context) time.Duration {
	m.follow()
	m.search()
	if since := time.Since(m.looked); since >= lookInterval || m.changed && since >= dueInterval {
		m.look(ctx)
	}
	now := time.Now()
	for id := range m.due {
		if m.beside() < maxFlight && now.Sub(m.last[id]) >= stateInterval {
			delete(m.due, id)
			m.publish(id, now)
		}
	}
	if len(m.due) > 0 || m.changed {
		return dueInterval
	}
	return beat
}

// follow finds the stations that have changed. One that was enrolled a moment ago is looked
// at before it is sent.
func (m *mirror) follow() {
	events, gap := m.Stations.EventsSince(m.seen, 0)
	for _, event := range events {
		m.seen = event.Number
		if m.there[event.State.ID] {
			m.due[event.State.ID] = true
		}
	}
	if gap {
		for id := range m.last {
			m.due[id] = true
		}
	}
}

// look finds stations that were enrolled and those that were removed since the last
// look. It keeps which may have a state at the broker before any is sent there; nothing is
// written over what an earlier session has kept before that was read.
func (m *mirror) look(ctx context.Context) {
	m.looked, m.changed = time.Now(), false
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	var err error
	if !m.recalled {
		var ids []site.StationID
		ids, err = m.Store.CloudStations(ctx)
		m.recalled, m.kept = err == nil, len(m.there) == 0
		for _, id := range ids {
			m.there[id] = true
		}
	}
	enrolled := make(map[site.StationID]bool)
	for _, s := range m.Stations.Stations() {
		enrolled[s.ID] = true
		if _, known := m.last[s.ID]; !known {
			m.last[s.ID], m.due[s.ID] = time.Time{}, true
		}
		m.kept = m.kept && m.there[s.ID]
		m.there[s.ID] = true
	}
	for id := range m.there {
		if !enrolled[id] {
			delete(m.last, id)
			m.due[id] = true
		}
	}
	if m.recalled && !m.kept {
		err = m.Store.SaveCloudStations(ctx, slices.Sorted(maps.Keys(m.there)))
		m.kept = err == nil
	}
	if err != nil && ctx.Err() == nil { // else the connection has ended
		m.Logger.Warn("states of removed stations may stay at the cloud for now", "error", err)
	}
}

// publish sends the present state; of a station that is gone the empty payload, which
// removes what is retained (MQTT 3.1.1, section 3.3.1.3).
func (m *mirror) publish(id site.StationID, now time.Time) {
	var payload []byte
	state, enrolled := m.Stations.State(id)
	if enrolled {
		payload, m.last[id] = api.Encode(state), now
	} else if !m.there[id] {
		return
	}
	m.send(mqttclient.Message{Topic: api.StateTopic(m.Gateway, id), Retained: true, Payload: payload}, func() {
		if _, again := m.Stations.State(id); !enrolled && !again {
			delete(m.there, id)
			m.kept, m.looked = false, time.Time{}
		}
	})
}
