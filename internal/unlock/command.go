package unlock

import (
	"crypto/rand"
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

// newCommandID gives a version 7 UUID (RFC 9562, 5.7) of the gateway's own time,
// which the system's may be far from.
func newCommandID(now time.Time) site.CommandID {
	var id uuid.UUID
	_, _ = rand.Read(id[6:])      // never fails (crypto/rand)
	ms := uint64(now.UnixMilli()) //nolint:gosec // after 1970
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return site.CommandID(id.String())
}

// entry is one remembered command.
type entry struct {
	cmd     site.Command
	facts   site.Facts // of its records, but for the outcome
	outcome site.Outcome
	follows int
	said    site.Outcome  // what was said last
	late    bool          // whether it came after the deadline
	done    chan struct{} // closed when outcome is no longer Requested
}

// settle sets how the command ended, as far as is known.
func (e *entry) settle(outcome site.Outcome) {
	if e.outcome == site.Requested {
		close(e.done)
	}
	e.outcome, e.said = outcome, outcome
}

// commands remembers the newest commands, so that what stations say of them later
// finds them.
type commands struct {
	mu   sync.Mutex // mu guards what follows
	byID map[site.CommandID]*entry
	ring [maxCommands]site.CommandID
	next int
}

func newCommands() *commands { return &commands{byID: make(map[site.CommandID]*entry)} }

// add remembers a command and forgets the oldest.
func (c *commands) add(cmd site.Command, facts site.Facts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, c.ring[c.next])
	c.ring[c.next] = cmd.ID
	c.next = (c.next + 1) % maxCommands
	c.byID[cmd.ID] = &entry{cmd: cmd, facts: facts, outcome: site.Requested, done: make(chan struct{})}
}

// end keeps how Call ended, unless the station has said more meanwhile.
func (c *commands) end(id site.CommandID, outcome site.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[id]; ok && e.outcome == site.Requested {
		e.settle(outcome)
	}
}

// follow takes a station's further word; false when it names no command of that
// station and lock, says the same again, or has said enough. What comes after the
// deadline does not change how the command ended.
func (c *commands) follow(id site.CommandID, station site.StationID, lock site.LockID, outcome site.Outcome) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok || e.cmd.Station != station || (lock != 0 && e.cmd.Lock != lock) || e.follows >= maxFollows || e.said == outcome {
		return entry{}, false
	}
	e.follows++
	e.said = outcome
	if e.late = time.Now().After(e.cmd.Deadline); !e.late {
		e.settle(outcome)
	}
	return *e, true
}

func (c *commands) get(id site.CommandID) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[id]; ok {
		return *e, true
	}
	return entry{}, false
}
