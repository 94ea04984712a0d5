// Package token has the integration tokens: what a dashboard, a script or another product
// sends in the place of a person's access token, so that no app has to keep a password.
//
// Promises: a token has 130 random bits, is shown once and kept as a SHA-256 only; its
// removal takes effect with the next request, also when the storage takes no writes; a token
// never does more than its scope; a station that is removed leaves every scope, so that a
// station enrolled later under its id is not in it. An expiry is judged by the gateway's
// clock, which never reads less than the time floor, as that of a grant.
//
// Memory is the authority for every read, as in package access, which calls it.
package token

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// prefix begins every token, so that people and scanners of leaked secrets recognise one.
const prefix = "gh_"

// length is that of every token: the prefix and the 26 characters of [rand.Text].
const length = len(prefix) + 26

// Is reports whether a text has the form of an integration token, which no access token
// has.
func Is(text site.Secret) bool {
	return len(text) == length && strings.HasPrefix(text.Reveal(), prefix)
}

// Service has the tokens. Safe for concurrent use.
type Service struct {
	changes *amend.Service
	clock   site.Clock

	mu    sync.RWMutex // mu guards what follows
	byID  map[site.AccountID]*entry
	bySum map[[32]byte]*entry
}

// entry is a token. It stays after its removal until that is stored.
type entry struct {
	site.Token
	removed bool
	used    atomic.Int64 // when it was used last, in milliseconds since 1970 UTC; 0: never
	stored  int64        // the same as the store has it
}

// New returns a Service with these tokens, which changes makes changes of.
func New(tokens []site.Token, changes *amend.Service, clock site.Clock) *Service {
	s := &Service{changes: changes, clock: clock, byID: make(map[site.AccountID]*entry), bySum: make(map[[32]byte]*entry)}
	for _, t := range tokens {
		s.enter(t)
	}
	changes.OnStored(s.applyStored)
	changes.OnPending(s.applyPending)
	return s
}

// enter adds a token. The caller holds mu, or is New.
func (s *Service) enter(t site.Token) {
	e := &entry{Token: t}
	if !t.Used.IsZero() {
		e.stored = t.Used.UnixMilli()
		e.used.Store(e.stored)
	}
	s.byID[t.ID], s.bySum[t.Sum] = e, e
}

// Authenticate returns the integration behind a token: Unauthenticated unless it is known,
// has not been removed and has not expired. Quick.
func (s *Service) Authenticate(text site.Secret) (site.Actor, error) {
	sum, now := sha256.Sum256([]byte(text)), s.clock.Now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.bySum[sum]
	if !e.lives(now) {
		return site.Actor{}, fault.New(fault.Unauthenticated, "Token is invalid")
	}
	e.used.Store(now.UnixMilli())
	return site.Actor{Origin: site.Local, Account: e.ID, Name: "token " + e.Name}, nil
}

// lives reports whether there is a token that is good for anything at now.
func (e *entry) lives(now time.Time) bool { return e != nil && !e.removed && !e.Expired(now) }

// Scope returns what the token of that id may do now: nothing where there is none. Quick.
func (s *Service) Scope(id site.AccountID, now time.Time) site.Scope {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.byID[id]
	if !e.lives(now) {
		return site.Scope{}
	}
	return e.Scope
}

// Tokens lists the tokens by name, without their sums. One that has expired is among them
// until it is removed.
func (s *Service) Tokens() []site.Token {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]site.Token, 0, len(s.byID))
	for _, e := range s.byID {
		if !e.removed {
			out = append(out, e.shown())
		}
	}
	slices.SortFunc(out, func(a, b site.Token) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// shown returns what callers see of a token. The caller holds mu.
func (e *entry) shown() site.Token {
	t := e.Token
	t.Sum = [32]byte{}
	if used := e.used.Load(); used != 0 {
		t.Used = site.At(time.UnixMilli(used))
	}
	return t
}

// Add adds a token and returns it with its text, which is shown this once. Invalid for a
// name, a scope or an end that no token can have; NotFound when the scope names a station
// that is not enrolled; Conflict when the name is taken, or there are [site.MaxTokens];
// Unavailable when it cannot be stored.
func (s *Service) Add(ctx context.Context, by site.Actor, name string, scope site.Scope, until time.Time) (added site.Token, text site.Secret, err error) {
	now := s.clock.Now()
	text = site.Secret(prefix + strings.ToLower(rand.Text()))
	added = site.Token{
		ID: site.AccountID(uuid.NewString()), Name: name, Sum: sha256.Sum256([]byte(text)), Scope: scope,
		Created: site.At(now), Until: site.At(until),
	}
	switch {
	case !site.ValidTokenName(name):
		err = fault.New(fault.Invalid, fmt.Sprintf("The name of a token has 1 to %d characters and begins with a letter or a digit", site.MaxTokenName))
	case len(scope.Words()) == 0:
		err = fault.New(fault.Invalid, "Say what the token may do: read, unlock:1042,1043 or unlock:*")
	case added.Expired(now):
		err = fault.New(fault.Invalid, "The token would have expired already")
	}
	if err != nil {
		return site.Token{}, "", err
	}
	err = s.changes.Make(ctx, by, func() ([]site.Amendment, error) {
		draft := added
		return []site.Amendment{{AddToken: &draft, Record: change(by, site.KindTokenAdded, added)}}, s.checkRoom(name)
	})
	if err != nil {
		return site.Token{}, "", err
	}
	added.Sum = [32]byte{}
	return added, text, nil
}

// checkRoom returns why there cannot be one more token of that name.
func (s *Service) checkRoom(name string) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.named(name) != nil:
		return fault.New(fault.Conflict, "There is a token of that name already")
	case len(s.byID) >= site.MaxTokens:
		return fault.New(fault.Conflict, fmt.Sprintf("There are %d tokens already: remove one first", site.MaxTokens))
	}
	return nil
}

// named returns the token of that name, also one whose removal is not stored yet. The
// caller holds mu.
func (s *Service) named(name string) *entry {
	for _, e := range s.byID {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// Remove removes the token of that name. It takes effect at once, whatever it returns:
// NotFound when there is none, Unavailable when that could not be stored yet. A retry then
// tries the store again, and so does every later change.
func (s *Service) Remove(ctx context.Context, by site.Actor, name string) error {
	return s.changes.Revoke(ctx, by, func() ([]site.Amendment, error) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		e := s.named(name)
		switch {
		case e == nil:
			return nil, fault.New(fault.NotFound, "There is no token of that name")
		case e.removed: // but not stored
			return nil, nil
		}
		return []site.Amendment{{RemoveToken: e.ID, Record: change(by, site.KindTokenRemoved, e.Token)}}, nil
	})
}

// DraftRemovals drafts the removal of every token, as Remove does that of one.
func (s *Service) DraftRemovals(by site.Actor) (all []site.Amendment) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id, e := range s.byID {
		if !e.removed { // but not stored
			all = append(all, site.Amendment{RemoveToken: id, Record: change(by, site.KindTokenRemoved, e.Token)})
		}
	}
	return all
}

// applyPending ends the tokens whose removal is pending.
func (s *Service) applyPending(pending []site.Amendment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range pending {
		if e := s.byID[a.RemoveToken]; e != nil {
			e.removed = true
		}
	}
}

// Uses returns when tokens were used since [Service.UsesStored]; the caller stores that
// now and then.
func (s *Service) Uses() map[site.AccountID]time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	uses := make(map[site.AccountID]time.Time)
	for id, e := range s.byID {
		if used := e.used.Load(); used != e.stored {
			uses[id] = time.UnixMilli(used)
		}
	}
	return uses
}

// UsesStored takes note of uses that are stored.
func (s *Service) UsesStored(uses map[site.AccountID]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, at := range uses {
		if e := s.byID[id]; e != nil {
			e.stored = at.UnixMilli()
		}
	}
}

// applyStored applies stored amendments: a removed station leaves every scope.
func (s *Service) applyStored(amendments []site.Amendment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range amendments {
		switch {
		case a.AddToken != nil:
			s.enter(*a.AddToken)
		case a.RemoveToken != "":
			if e := s.byID[a.RemoveToken]; e != nil {
				delete(s.bySum, e.Sum)
				delete(s.byID, a.RemoveToken)
			}
		case a.RemoveStation != 0:
			for e := range maps.Values(s.byID) {
				without := slices.Clone(e.Scope.Unlock) // Scope has returned the former
				e.Scope.Unlock = slices.DeleteFunc(without, func(id site.StationID) bool { return id == a.RemoveStation })
			}
		}
	}
}

// change is the record of a change that by made to a token.
func change(by site.Actor, kind site.Kind, t site.Token) site.Record {
	detail := fmt.Sprintf("%q: %s", t.Name, strings.Join(t.Scope.Words(), " "))
	if !t.Until.IsZero() {
		detail += ", until " + t.Until.String()
	}
	return site.Record{Kind: kind, Facts: site.Facts{
		Origin: by.Origin, By: cmp.Or(by.Name, string(by.Email)), Account: t.ID, Detail: detail,
	}}
}
