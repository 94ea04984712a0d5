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

// Place is where the revocations that could not be stored are.
type Place int

// The places. In the process alone is also that of which the slate holds only a part.
const (
	InProcess Place = iota // a restart of the gateway loses them
	InMemory               // a restart of the machine loses them
	OnDisk
)

// Resume makes those revocations pending again that the slate held when the process ended before
// they were stored; stored is the number of the last one that was. From now on the slate holds what is
// pending, and what the copy of the database does not have yet: a database that is damaged is
// replaced by that. copied returns the number of the last one that it has. report is called with the number of revocations
// that could not be stored, and where they are, whenever that changes; both must return soon. Resume must be called after the
// functions of OnStored and OnPending were added, and before the first change. The error is that of
// [Decode]: the rest is pending.
func (s *Service) Resume(ctx context.Context, slate Slate, held []byte, stored uint64, copied func() uint64, report func(n int, at Place)) error {
	all, err := Decode(held, stored)
	s.mu.Lock()
	s.slate, s.copied, s.report, s.last = slate, copied, report, stored
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
// of it as it has room for. The caller holds mu.
func (s *Service) hold() {
	if s.slate == nil {
		return
	}
	copied := s.copied()
	s.uncopied = slices.DeleteFunc(s.uncopied, func(a site.Amendment) bool { return a.Revocation <= copied })
	all := shared(merged(amendments(s.pending)))
	wanted := len(all)
	s.uncopied = shared(merged(s.uncopied))
	all = append(all, s.uncopied...)
	content := encode(all)
	for len(content) > s.slate.Room() {
		all = all[:len(all)*s.slate.Room()/len(content)]
		content = encode(all)
	}
	s.uncopied = s.uncopied[:max(0, len(all)-wanted)] // a client that logs in and out makes no more of them
	s.held = s.slate.Hold(content)
	s.partly = len(all) < wanted
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
				one.Revocation = a.Revocation
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
	case s.partly:
	case saved == nil:
		at = OnDisk
	case s.held == nil:
		at = InMemory
	}
	s.report(len(s.pending), at)
}
