package unlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// signedLife is how long a signed command may be valid by a right clock: a minute,
	// and 5 s by which the signer's clock may be ahead (contract, section 3).
	signedLife = 65 * time.Second
	// signedMemory is how long its id is kept at least, by the monotonic clock.
	signedMemory = 2 * signedLife
	// maxSigned bounds the ids that are kept: 46 commands a second, sustained. The records
	// of that many stand within those that [Journal.RecentUnlocks] looks through.
	maxSigned = 6000
)

// errRepeated refuses an id that was claimed before.
var errRepeated = fault.New(fault.Conflict, "The command came before")

// signedCommand is a signed command whose id was claimed.
type signedCommand struct {
	begun   bool         // Unlock was called with it
	until   time.Time    // its end, by the gateway's clock
	forget  time.Time    // kept until then, a monotonic moment
	outcome site.Outcome // [site.Requested] until it has ended
	ended   time.Time    // by the gateway's clock; zero until then
}

// signed remembers the ids of signed commands, so that none is carried out twice. A
// command is carried out only with its record, and its id in it, on disk: what a restart
// finds there is all that was carried out. Its methods are safe for concurrent use.
type signed struct {
	mu          sync.Mutex // mu guards what follows
	byID        map[string]signedCommand
	swept       time.Time
	incomplete  time.Time // until then commands may have been carried out that are not in byID
	interrupted []string  // found without an outcome by New
}

// Claim claims the id of a signed command that is valid until then; the caller passes
// it to [Service.Unlock] as JTI. It does not block. Errors: Conflict for an id that was
// claimed before, also by an earlier run, with the answer so far; Throttle when nothing
// can be claimed now.
func (s *Service) Claim(id string, until time.Time) (Answer, error) {
	now := time.Now()
	s.signed.mu.Lock()
	defer s.signed.mu.Unlock()
	if first, ok := s.signed.byID[id]; ok {
		return Answer{Outcome: first.outcome, Ended: first.ended, Replayed: true}, errRepeated
	}
	if left := s.signed.incomplete.Sub(now); left > 0 {
		return Answer{}, fault.Throttle("The journal was restored or lost records: what was carried out before is not known yet", left)
	}
	if len(s.signed.byID) >= maxSigned || now.Sub(s.signed.swept) > signedLife {
		s.signed.sweep(now, s.Clock.Now())
	}
	if len(s.signed.byID) >= maxSigned {
		return Answer{}, fault.Throttle("Too many signed commands in a short time", signedLife)
	}
	s.signed.byID[id] = signedCommand{until: until, forget: now.Add(signedMemory), outcome: site.Requested}
	return Answer{}, nil
}

// sweep drops commands that have expired by every clock; mu is held.
func (sg *signed) sweep(now, clock time.Time) {
	sg.swept = now
	for id, c := range sg.byID {
		if now.After(c.forget) && clock.After(c.until) {
			delete(sg.byID, id)
		}
	}
}

// openSigned carries out a command whose id is claimed. Errors: Conflict when it is not,
// or was carried out; Unavailable when its record is not durable: nothing was sent, and the
// id may be claimed again.
func (s *Service) openSigned(ctx context.Context, req Request) (Answer, error) {
	if !s.signed.begin(req.JTI) {
		return Answer{}, errRepeated
	}
	outcome := site.Unresolved // of a panic
	defer func() { s.signed.end(req.JTI, outcome, s.Clock.Now()) }()
	answer := s.open(ctx, req)
	if answer.unrecorded {
		s.signed.release(req.JTI)
		return answer, fault.New(fault.Unavailable, "The storage takes no writes: signed commands are not carried out without a durable record")
	}
	outcome = answer.Outcome
	return answer, nil
}

// begin reports whether an id is claimed and Unlock was not called with it before.
func (sg *signed) begin(id string) bool {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	c, ok := sg.byID[id]
	if !ok || c.begun {
		return false
	}
	c.begun = true
	sg.byID[id] = c
	return true
}

func (sg *signed) end(id string, outcome site.Outcome, at time.Time) {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	if c, ok := sg.byID[id]; ok {
		c.outcome, c.ended = outcome, at
		sg.byID[id] = c
	}
}

func (sg *signed) release(id string) {
	sg.mu.Lock()
	defer sg.mu.Unlock()
	delete(sg.byID, id)
}

// doubt refuses signed commands after the journal was restored from a backup or lost
// records, which was age ago: for as long as a command that was carried out before that
// may be valid.
func (sg *signed) doubt(age time.Duration) {
	if age < signedLife {
		sg.incomplete = time.Now().Add(signedLife)
	}
}

// Interrupted returns the ids of the signed commands that an earlier run had not ended.
func (s *Service) Interrupted() []string { return slices.Clone(s.signed.interrupted) }

// rememberSigned adds the id of a record's command, with its first outcome.
func (s *Service) rememberSigned(r site.Record) {
	if r.JTI == "" || r.Command == "" {
		return
	}
	c, known := s.signed.byID[r.JTI]
	if !known {
		c = signedCommand{begun: true, until: r.Time.Add(signedLife), forget: time.Now().Add(signedMemory), outcome: site.Requested}
	}
	if c.outcome == site.Requested && r.Outcome != site.Requested {
		c.outcome, c.ended = r.Outcome, r.Time.Time
	}
	s.signed.byID[r.JTI] = c
}

// rememberInterrupted notes the end of a command that an earlier run had not ended.
func (s *Service) rememberInterrupted(r site.Record) {
	if r.JTI == "" {
		return
	}
	s.signed.end(r.JTI, r.Outcome, s.Clock.Now())
	s.signed.interrupted = append(s.signed.interrupted, r.JTI)
}
