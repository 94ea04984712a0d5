package stationlink

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"gatehouse/internal/board/systemlog"
	"gatehouse/internal/site"
)

// peer is a station over all its connections. It stays when the station disconnects: only a
// secret makes one, so there are no more than stations.
type peer struct {
	events *systemlog.Limiter // of its connections

	mu      sync.Mutex // mu guards what follows, and what changes of its wires and calls
	before  *past      // what was heard on the connections before; nil: no uptime
	drift   int64      // that it has stated of its clock, in millionths
	results bool       // it has stated that it answers each command by a result
	// lastID is the packet id of the last command. The ids go on over connections, and begin
	// anywhere in each run of the gateway: a PUBACK that comes over the next connection
	// acknowledges its own command or none.
	lastID uint16
	calls  map[uint16]*call // by packet id: without an answer, or without an acknowledgement
}

func (l *Link) newPeer() *peer {
	return &peer{
		events: systemlog.NewLimiter(l.log, eventsEvery, eventsAtOnce),
		lastID: uint16(rand.N(1 << 16)), calls: make(map[uint16]*call), //nolint:gosec // not secret, and in range
	}
}

// add adds the call and assigns it a packet id that is not in use; false when its
// connection has ended.
func (p *peer) add(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.wire.ended {
		return false
	}
	for used := true; used || p.lastID == 0; {
		p.lastID++
		_, used = p.calls[p.lastID]
	}
	c.packetID = p.lastID
	p.calls[c.packetID] = c
	return true
}

// depart notes that a command is sent with that much time left. It returns the deadline
// in the station's own clock, if that is known, and the least time that any command in
// flight on the connection was sent with: counted from its own departure, none is then
// retransmitted past its deadline.
func (p *peer) depart(c *call, left time.Duration) (notAfter int64, known bool, patience time.Duration) {
	now := c.wire.link.clock()
	p.mu.Lock()
	defer p.mu.Unlock()
	c.rest, patience = left, left
	c.wire.sent[c.command.Lock] = c.command.ID
	for _, other := range p.calls {
		if other.wire == c.wire && !other.answered && other.rest > 0 {
			patience = min(patience, other.rest)
		}
	}
	notAfter, known = c.wire.uptimes.notAfter(c.deadline, now)
	return notAfter, known, patience
}

// hasOnlyAcknowledged reports whether the acknowledgement of a command is its answer, if no
// other comes: the station has stated no more.
func (p *peer) hasOnlyAcknowledged(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.onlyAcknowledged(c)
}

// onlyAcknowledged is hasOnlyAcknowledged with mu held.
func (p *peer) onlyAcknowledged(c *call) bool { return c.acked && !c.promised && !p.results }

// acknowledge makes room for another command at QoS 1, and ends the call with that packet
// id, unless it waits for the station's result and the packet only acknowledges it: always
// for a station that answers by results, else in time. An acknowledgement of nothing that
// was sent changes nothing.
func (p *peer) acknowledge(id uint16, outcome site.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[id]
	if c == nil || c.qos == 0 {
		return
	}
	c.free()
	waits := p.results || c.wantResult && c.left() > c.reserve()
	if !c.answered && outcome == site.Acknowledged && waits {
		c.acked, c.promised = true, p.results
		return
	}
	p.answer(c, outcome)
}

// answerCommand ends the call of that command. It reports whether one waits, and whether the
// result states nothing that contradicts the command.
func (p *peer) answerCommand(res result) (known, right bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c.command.ID == res.id && !c.answered {
			outcome := c.outcomeOf(res)
			p.answer(c, outcome)
			return true, outcome == res.outcome
		}
	}
	return false, false
}

// failNamed ends the calls whose command ids a result contains that cannot be read.
func (p *peer) failNamed(payload []byte) {
	text := strings.ToLower(string(payload))
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if !c.answered && strings.Contains(text, string(c.command.ID)) {
			p.answer(c, site.Failed)
		}
	}
}

// finish ends the wait of a call. It returns the answer, "" without one; whether the station has
// acknowledged the command and stated no more; and whether it still owes the acknowledgement.
func (p *peer) finish(c *call) (outcome site.Outcome, acknowledged, owes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.answered {
		p.settle(c)
	}
	return c.outcome, p.onlyAcknowledged(c), !c.acked && !c.wire.ended
}

// withdraw drops a call whose command was not sent: it owes no acknowledgement.
func (p *peer) withdraw(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.free()
	p.settle(c)
}

// answer ends a call, unless it has ended, and settles it; mu is held.
func (p *peer) answer(c *call, outcome site.Outcome) {
	if !c.answered {
		c.outcome = outcome
		close(c.done)
	}
	p.settle(c)
}

// settle notes that a call waits for no answer, and drops it unless it holds a slot until
// it is acknowledged; mu is held.
func (p *peer) settle(c *call) {
	c.answered = true
	if c.qos == 0 {
		c.free()
	}
	if c.tokens == nil {
		delete(p.calls, c.packetID)
	}
}

// end notes the end of a connection. Its slots are gone, and its calls wait.
func (p *peer) end(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.ended {
		return
	}
	w.ended = true
	close(w.gone)
	p.before = w.uptimes.end(w.link.clock())
	p.drift = w.uptimes.drift
	for _, c := range p.calls {
		if c.wire == w {
			c.tokens = nil
			if c.answered {
				p.settle(c)
			}
		}
	}
}

// stop ends every call: how its command ends will not be known.
func (p *peer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		p.answer(c, site.Unresolved)
	}
}
