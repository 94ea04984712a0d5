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
	late    bool // whether the last follow came after the deadline
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
	c.byID[cmd.ID] = &entry{cmd: cmd, facts: facts, outcome: site.Requested}
}

// end keeps how Call ended, unless the station has said more meanwhile.
func (c *commands) end(id site.CommandID, outcome site.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[id]; ok && e.follows == 0 {
		e.outcome = outcome
	}
}

// follow takes a station's further word; false when it names no command of that
// station or has said enough.
func (c *commands) follow(id site.CommandID, station site.StationID, outcome site.Outcome) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byID[id]
	if !ok || e.cmd.Station != station || e.follows >= maxFollows {
		return entry{}, false
	}
	e.follows++
	e.late = time.Now().After(e.cmd.Deadline)
	e.outcome = outcome
	if e.late {
		e.outcome = site.Late
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
