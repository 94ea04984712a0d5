package amend

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gatehouse/internal/site"
)

// Slate holds what is pending over a restart; package slate satisfies it.
type Slate interface {
	// Room is how many bytes it can hold.
	Room() int
	// Hold replaces what it holds, in memory that outlives the process where there is some. Quick.
	Hold(content []byte) error
	// Save brings that to the disk, which may be full. It waits for a bounded time.
	Save(ctx context.Context) error
}

// Copy is the copy of the database, which replaces one that is damaged; package sqlite satisfies it. Its methods
// are quick.
type Copy interface {
	// Copied returns the number of the last revocation that it has.
	Copied() uint64
	// CopyNow has it written without the usual delay.
	CopyNow()
}

// Place is where the revocations are that could not be stored.
type Place int

// The places.
const (
	InProcess Place = iota // a restart of the gateway loses them
	InMemory               // a restart of the machine loses them
	OnDisk
)

// Held counts the revocations that the database or its copy does not have.
type Held struct {
	Unstored int // the database does not have them
	At       Place
	Unheld   int // the slate has no room for so many of them: a restart of the gateway loses these
	Uncopied int // so many that the database has, and its copy cannot get: damage of the database undoes them
}

// slated is what a Service has in its slate.
type slated struct {
	held     error            // the result of the last call of the slate
	uncopied []site.Amendment // what was stored and the copy of the database does not have
	unheld   int              // see [Held.Unheld]
	dropped  int              // how many of them were dropped, because the slate had no room
	upTo     uint64           // the highest number of those
	asked    bool             // a copy was asked for, and none was written since
	// uncopiable is set while the copy cannot be written. Before the first try nobody need know
	// what was dropped: the copy is about to have it.
	uncopiable bool
}

// Resume makes those revocations pending again that the slate held when the process ended and the store does not
// have, because it failed, or was damaged and replaced by its copy; stored is the number of the last one that it
// has. From now on the slate holds what is pending, and what the copy does not have yet. report is
// called whenever that changes, and must return soon. Resume must be called after the
// functions of OnStored and OnPending were added, and before the first change. The error is that of
// [Decode]: the rest is pending.
func (s *Service) Resume(ctx context.Context, slate Slate, held []byte, stored uint64, copied Copy, report func(Held)) error {
	all, err := Decode(held, stored)
	s.mu.Lock()
	s.slate, s.copy, s.report, s.last, s.stored = slate, copied, report, stored, stored
	for _, a := range all {
		s.last = max(s.last, a.Revocation)
		if a.Revocation > stored {
			s.pending = append(s.pending, &revocation{Amendment: a})
		} else {
			s.uncopied = append(s.uncopied, a)
		}
	}
	s.update(nil)
	if err == nil { // else the slate has what a later version can read
		s.hold()
	}
	s.mu.Unlock()
	s.save(ctx)
	return err
}

// Copied is to be called when the copy of the database was written, for the slate need not hold what that has, or could
// not be.
func (s *Service) Copied(ctx context.Context, err error) {
	s.mu.Lock()
	s.uncopiable, s.asked = err != nil, s.asked && err != nil
	waiting := len(s.uncopied)+s.dropped > 0
	if waiting {
		s.hold()
	}
	s.mu.Unlock()
	if waiting {
		s.save(ctx)
	}
}

// Decode returns those revocations in the content of a slate that this version knows, each
// once, in the order of their numbers. The error is that of others, which a later version may
// have written, unless they are stored.
func Decode(content []byte, stored uint64) (all []site.Amendment, err error) {
	seen := make(map[string]bool)
	for line := range bytes.Lines(content) {
		if seen[string(line)] {
			continue
		}
		seen[string(line)] = true
		var a site.Amendment
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if unknown := decoder.Decode(&a); unknown != nil {
			var number struct{ Revocation uint64 }
			if json.Unmarshal(line, &number) == nil && 0 < number.Revocation && number.Revocation <= stored {
				continue
			}
			err = fmt.Errorf("reading a revocation that was not stored: %w", unknown)
			continue
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b site.Amendment) int { return cmp.Compare(a.Revocation, b.Revocation) })
	return all, err
}

// hold has the slate hold what is pending, and then what the copy does not have yet, or as much
// of it as it has room for. Before it is full of that, the copy is written. The caller holds mu.
func (s *Service) hold() {
	if s.slate == nil {
		return
	}
	copied, room := s.copy.Copied(), s.slate.Room()
	s.uncopied = slices.DeleteFunc(s.uncopied, func(a site.Amendment) bool { return a.Revocation <= copied })
	if s.upTo <= copied {
		s.dropped = 0
	}
	all := shared(merged(amendments(s.pending)))
	pending := len(all)
	all = append(all, shared(merged(s.uncopied))...)
	content, n := encode(all), len(all)
	if !s.asked && n > pending && len(content) > room/2 {
		s.asked = true
		s.copy.CopyNow()
	}
	for len(content) > room {
		n = n * room / len(content)
		content = encode(all[:n])
	}
	s.unheld = max(0, pending-n)
	first := max(n, pending) // of those that are dropped: a client that logs in and out makes no more of them
	s.uncopied = all[pending:first]
	for _, a := range all[first:] {
		s.dropped, s.upTo = s.dropped+1, max(s.upTo, a.Revocation)
	}
	s.held = s.slate.Hold(content)
}

// sessionsEach is how many sessions one amendment in a slate ends at most.
const sessionsEach = 100

// merged returns amendments with those that end sessions of one account as few, each of sessionsEach
// at most, so that an account that logs out many times takes little room of the slate.
func merged(all []site.Amendment) (out []site.Amendment) {
	type cause struct {
		account site.AccountID
		origin  site.Origin
		by      string
	}
	last := make(map[cause]int) // positions in out
	for _, a := range all {
		if len(a.EndSessions) == 0 {
			out = append(out, a)
		}
		for ids := range slices.Chunk(a.EndSessions, sessionsEach) {
			by := cause{a.Record.Account, a.Record.Origin, a.Record.By}
			if i, found := last[by]; found && len(out[i].EndSessions)+len(ids) <= sessionsEach {
				one := &out[i]
				one.EndSessions = append(one.EndSessions, ids...)
				one.Record.Session, one.Record.Detail, one.Record.Count = "", "", len(one.EndSessions)
				one.Revocation = max(one.Revocation, a.Revocation)
				continue
			}
			part := a
			part.EndSessions = slices.Clip(ids)
			if len(ids) < len(a.EndSessions) {
				part.Record.Count = len(ids)
			}
			last[by] = len(out)
			out = append(out, part)
		}
	}
	return out
}

// shared returns amendments in an order of which the slate may hold the first: what administrators
// revoke, then the sessions that they end, then those that accounts end of their own. Within each, one of
// each administrator or account comes before the second of another, so that none displaces others.
func shared(all []site.Amendment) []site.Amendment {
	type rank struct{ class, round int }
	rounds := make(map[string]int)
	ranks := make([]rank, len(all))
	order := make([]int, len(all))
	for i, a := range all {
		class, of := 0, a.Record.By
		if len(a.EndSessions) > 0 {
			class, of = 1+ofOwn(a), string(a.Record.Account)
		}
		key := fmt.Sprint(class, " ", of)
		ranks[i], order[i] = rank{class, rounds[key]}, i
		rounds[key]++
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(ranks[i].class, ranks[j].class), cmp.Compare(ranks[i].round, ranks[j].round))
	})
	out := make([]site.Amendment, len(all))
	for at, i := range order {
		out[at] = all[i]
	}
	return out
}

// ofOwn is 1 for what an account revokes of its own, and 0 for what administrators revoke.
func ofOwn(a site.Amendment) int {
	if a.Record.Origin == site.Admin {
		return 0
	}
	return 1
}

// Unstored returns the revocations that the store does not have yet, for [Decode].
func (s *Service) Unstored() []byte { return encode(amendments(s.waiting())) }

// encode returns what a slate holds of amendments: each is a line of JSON.
func encode(all []site.Amendment) (content []byte) {
	for _, a := range all {
		line, _ := json.Marshal(a) //nolint:errchkjson // plain data
		content = append(append(content, line...), '\n')
	}
	return content
}

// save brings what is pending to the disk by the slate, and reports it.
func (s *Service) save(ctx context.Context) {
	if s.slate == nil {
		return
	}
	saved := s.slate.Save(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := InProcess
	switch {
	case saved == nil:
		at = OnDisk
	case s.held == nil:
		at = InMemory
	}
	h := Held{Unstored: len(s.pending), At: at, Unheld: s.unheld}
	if s.uncopiable {
		h.Uncopied = s.dropped
	}
	s.report(h)
}
