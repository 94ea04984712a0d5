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

// Resume makes those revocations pending again that the slate held when the process ended before
// they were stored; stored is the number of the last one that was. From now on the slate holds what is
// pending. report is called with the number of revocations that could not be stored, and whether
// the slate has them, whenever that changes; it must return soon. Resume must be called after the
// functions of OnStored and OnPending were added, and before the first change. The error is that of
// [Decode]: the rest is pending.
func (s *Service) Resume(slate Slate, held []byte, stored uint64, report func(n int, held bool)) error {
	all, err := Decode(held, stored)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slate, s.report, s.last = slate, report, stored
	for _, a := range all {
		s.last = max(s.last, a.Revocation)
		if a.Revocation > stored {
			s.pending = append(s.pending, &revocation{Amendment: a})
		}
	}
	if len(s.pending) > 0 {
		s.update(nil)
		report(len(s.pending), true)
	}
	return err
}

// Decode returns those revocations in the content of a slate that this version knows, each
// once, in the order of their numbers. The error is that of others, which a later version may
// have written, unless they are stored.
func Decode(content []byte, stored uint64) (all []site.Amendment, err error) {
	for line := range bytes.Lines(content) {
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
	number := func(a, b site.Amendment) int { return cmp.Compare(a.Revocation, b.Revocation) }
	slices.SortStableFunc(all, number)
	return slices.CompactFunc(all, func(a, b site.Amendment) bool { return number(a, b) == 0 }), err
}

// hold has the slate hold what is pending, or as much of it as it has room for: what an account
// revokes of its own comes last, so that it cannot displace what administrators revoke. The
// caller holds mu.
func (s *Service) hold() {
	if s.slate == nil {
		return
	}
	all := merged(amendments(s.pending))
	wanted := len(all)
	slices.SortStableFunc(all, func(a, b site.Amendment) int {
		return cmp.Compare(ofOwn(a), ofOwn(b))
	})
	content := encode(all)
	for len(content) > s.slate.Room() {
		all = all[:len(all)*s.slate.Room()/len(content)]
		content = encode(all)
	}
	s.held = s.slate.Hold(content)
	s.partly = len(all) < wanted
}

// merged returns amendments with those that end an account's own sessions as one for each
// account, so that an account that logs out many times takes little room of the slate.
func merged(all []site.Amendment) (out []site.Amendment) {
	ends := make(map[site.AccountID]int) // positions in out
	for _, a := range all {
		i, found := ends[a.Record.Account]
		switch {
		case len(a.EndSessions) == 0 || ofOwn(a) == 0:
			out = append(out, a)
		case !found:
			ends[a.Record.Account] = len(out)
			a.EndSessions = slices.Clip(a.EndSessions)
			out = append(out, a)
		default:
			one := &out[i]
			one.EndSessions = append(one.EndSessions, a.EndSessions...)
			one.Record.Session, one.Record.Detail, one.Record.Count = "", "", len(one.EndSessions)
			one.Revocation = a.Revocation
		}
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
	s.report(len(s.pending), !s.partly && (saved == nil || s.held == nil))
}
