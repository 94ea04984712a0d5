package link

import (
	"context"
	"slices"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

const (
	// stateInterval is how often the state of one station may go up.
	stateInterval = time.Second
	// stateWindow is how many states may be on their way.
	stateWindow = 32
	// lookInterval is how often the stations are listed, which finds those that were
	// enrolled and have not changed since.
	lookInterval = 10 * time.Second
	// dueInterval is how often what has to wait for its second is looked at, and how long
	// after a change the next is not.
	dueInterval = 100 * time.Millisecond
)

// mirror keeps the retained state of every station at the broker in one session. Its
// own goroutine does it all.
type mirror struct {
	*session
	there  map[site.StationID]bool      // stations that may have a state at the broker, as kept on disk
	last   map[site.StationID]time.Time // when each was last sent in this session; enrolled stations only
	queue  []site.StationID             // to be sent; no station twice
	seen   uint64                       // the newest event that was looked at
	flight flight[stateSent]
	unkept bool // the disk does not have there as it is
	// recalled says that there has what an earlier session has left at the broker.
	recalled bool
}

// stateSent is a state on its way, or the removal of one.
type stateSent struct {
	station site.StationID
	removed bool
}

func newMirror(s *session) *mirror {
	return &mirror{session: s, there: make(map[site.StationID]bool), last: make(map[site.StationID]time.Time)}
}

// run mirrors until ctx ends, or fails when the connection is of no use any more.
func (m *mirror) run(ctx context.Context) error {
	wake, cancel := m.Stations.Subscribe()
	defer cancel()
	m.seen = m.Stations.Latest()
	m.look(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	looked := time.Now()
	for listen := wake; ; {
		m.sendDue()
		if len(m.queue) > 0 || listen == nil {
			timer.Reset(dueInterval)
		} else {
			timer.Reset(lookInterval)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-listen:
			listen = nil // what changes in the next moment is taken together
			m.follow(ctx)
		case <-m.poke:
			m.look(ctx)
		case <-m.flight.arrived():
			if err := m.confirm(ctx); err != nil {
				return err
			}
		case <-timer.C:
			listen = wake
			if _, err := m.flight.patience(); err != nil {
				return err
			}
		}
		if time.Since(looked) >= lookInterval {
			m.look(ctx)
			looked = time.Now()
		}
	}
}

// look queues stations that were enrolled and those that were removed since the last
// look. It keeps which may have a state at the broker before any is sent there.
func (m *mirror) look(ctx context.Context) {
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
		if !enrolled[id] && !m.leaves(id) {
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

// leaves reports whether the removal of a state is on its way.
func (m *mirror) leaves(id site.StationID) bool {
	return slices.ContainsFunc(m.flight.all, func(f flying[stateSent]) bool { return f.what == stateSent{id, true} })
}

// follow queues the stations that have changed.
func (m *mirror) follow(ctx context.Context) {
	latest := m.Stations.Latest()
	events, gap := m.Stations.EventsSince(m.seen, 0)
	if gap {
		for id := range m.last {
			m.add(id)
		}
		m.seen = latest
	}
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

// sendDue sends the states whose second has passed.
func (m *mirror) sendDue() {
	now := time.Now()
	m.queue = slices.DeleteFunc(m.queue, func(id site.StationID) bool {
		if len(m.flight.all) >= stateWindow || now.Sub(m.last[id]) < stateInterval {
			return false
		}
		m.send(id, now)
		return true
	})
}

// send sends the present state; of a station that is gone the empty payload, which
// removes what is retained (MQTT 3.1.1, section 3.3.1.3).
func (m *mirror) send(id site.StationID, now time.Time) {
	var payload []byte
	state, enrolled := m.Stations.State(id)
	if enrolled {
		payload = api.Encode(state)
		m.last[id] = now
	} else if !m.there[id] {
		return
	}
	m.flight.add(m.conn.Publish(mqttclient.Message{
		Topic: api.StateTopic(m.Gateway, id), QoS: 1, Retained: true, Payload: payload,
	}), stateSent{id, !enrolled})
}

// confirm takes the broker's acknowledgement of the oldest state, or why there will be
// none.
func (m *mirror) confirm(ctx context.Context) error {
	landed, err := m.flight.land()
	if err != nil {
		return err
	}
	if _, enrolled := m.Stations.State(landed.station); landed.removed && !enrolled {
		delete(m.there, landed.station)
		m.keep(ctx)
	}
	return nil
}

// keep writes down which stations may have a state at the broker.
func (m *mirror) keep(ctx context.Context) {
	if m.unkept = !m.recalled; m.unkept {
		return
	}
	ids := make([]site.StationID, 0, len(m.there))
	for id := range m.there {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	err := m.Store.SaveCloudStations(ctx, ids)
	if m.unkept = err != nil; m.unkept {
		m.Logger.Warn("which states stand at the cloud is not kept", "error", err)
	}
}
