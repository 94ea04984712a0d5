package unlock

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/site"
)

const (
	// maxCommands bounds the commands that are remembered.
	maxCommands = 4096
	// maxFollows bounds the records that a station can cause with one command's id.
	maxFollows = 3
)

// newCommandID returns a version 7 UUID (RFC 9562, 5.7).
func newCommandID() site.CommandID { return site.CommandID(uuid.Must(uuid.NewV7()).String()) }

// entry is one remembered command.
type entry struct {
	cmd     site.Command
	facts   site.Facts // of its records, but for the outcome
	outcome site.Outcome
	follows int
	said    site.Outcome  // what was said last
	held    []reply       // what the station answered while Call was in flight
	done    chan struct{} // closed when outcome is no longer Requested
}

// reply is a station's answer to a command that came during or after its Call.
type reply struct {
	outcome site.Outcome
	late    bool // it came after the deadline
}

// record returns the record of a reply to a command with those facts.
func (w reply) record(facts site.Facts) site.Record {
	facts.Outcome = w.outcome
	if w.late {
		facts.Outcome, facts.Answer = site.Late, string(w.outcome)
	}
	return site.Record{Kind: site.KindUnlock, Facts: facts}
}

// settle sets how the command ended, as far as is known.
func (e *entry) settle(outcome site.Outcome) {
	if e.outcome == site.Requested {
		close(e.done)
	}
	e.outcome, e.said = outcome, outcome
}

// commands remembers the newest commands, so that later answers of stations find them.
type commands struct {
	mu   sync.Mutex // mu guards what follows
	byID map[site.CommandID]*entry
	ring [maxCommands]site.CommandID
	next int
}

func newCommands() *commands { return &commands{byID: make(map[site.CommandID]*entry)} }

// add remembers a command and forgets the oldest, for whose end nobody waits any more.
func (c *commands) add(cmd site.Command, facts site.Facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if oldest, ok := c.byID[c.ring[c.next]]; ok {
		oldest.settle(site.Unresolved)
		delete(c.byID, oldest.cmd.ID)
	}
	c.ring[c.next] = cmd.ID
	c.next = (c.next + 1) % maxCommands
	c.byID[cmd.ID] = &entry{cmd: cmd, facts: facts, outcome: site.Requested, done: make(chan struct{})}
}

// end stores the outcome of Call, and returns the station's answers so far: their
// records come after that of the outcome.
func (c *commands) end(id site.CommandID, outcome site.Outcome) (held []reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok || e.outcome != site.Requested {
		return nil
	}
	held, e.held = e.held, nil
	e.settle(outcome)
	for i := range held {
		held[i] = e.take(held[i])
	}
	return held
}

// take handles a reply to a command whose Call has ended. A reply that comes after the
// deadline, or after the client received the answer that none came in time, does not
// change the outcome.
func (e *entry) take(w reply) reply {
	w.late = w.late || e.outcome == site.Expired
	if e.said = w.outcome; !w.late {
		e.settle(w.outcome)
	}
	return w
}

// follow handles a station's further reply, and returns what is to be recorded now; known
// is false when the reply names no command of that station and lock, repeats the last one,
// or comes after too many.
func (c *commands) follow(id site.CommandID, station site.StationID, lock site.LockID, outcome site.Outcome) (records []site.Record, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok || e.cmd.Station != station || (lock != 0 && e.cmd.Lock != lock) || e.follows >= maxFollows || e.said == outcome {
		return nil, false
	}
	e.follows++
	w := reply{outcome, time.Now().After(e.cmd.Deadline)}
	if e.outcome == site.Requested {
		e.said = outcome
		e.held = append(e.held, w)
		return nil, true
	}
	return []site.Record{e.take(w).record(e.facts)}, true
}

func (c *commands) get(id site.CommandID) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[id]; ok {
		return *e, true
	}
	return entry{}, false
}
