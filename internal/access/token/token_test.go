package token_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/access/token"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// clock is a site.Clock that a test moves.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }
func (c *clock) Trusted() bool  { return false }

// store is an amend.Store that keeps what it is given, or fails.
type store struct {
	amended []site.Amendment
	err     error
}

func (s *store) Amend(_ context.Context, _ func() error, all []site.Amendment) error {
	if s.err == nil {
		s.amended = append(s.amended, all...)
	}
	return s.err
}

// house is a service over a store.
type house struct {
	*token.Service
	changes *amend.Service
	store   *store
	clock   *clock
}

func open(tokens ...site.Token) *house {
	h := &house{store: &store{}, clock: &clock{now: time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)}}
	h.changes = amend.New(h.store)
	h.Service = token.New(tokens, h.changes, h.clock)
	return h
}

func admin() site.Actor { return site.Actor{Origin: site.Admin, Name: "uid 1000 (ada)"} }

func (h *house) add(t *testing.T, name string, until time.Time, words ...string) (site.Token, site.Secret) {
	t.Helper()
	scope, err := site.ParseScope(words)
	if err != nil {
		t.Fatal(err)
	}
	added, text, err := h.Add(t.Context(), admin(), name, scope, until)
	if err != nil {
		t.Fatal(err)
	}
	return added, text
}

// A token is 130 random bits, known by its SHA-256 only, and acts under its own id and name.
func TestService_Add(t *testing.T) {
	h := open()
	added, text := h.add(t, "Lobby", time.Time{}, "read", "unlock:1042")
	if !token.Is(text) || token.Is(text[1:]) || token.Is("gh_") || added.Sum != [32]byte{} {
		t.Errorf("added %+v", added)
	}
	stored := h.store.amended[0]
	if stored.AddToken.Sum != sha256.Sum256([]byte(text)) || strings.Contains(fmt.Sprintf("%+v", stored), text.Reveal()) {
		t.Errorf("stored %+v", stored.AddToken)
	}
	rec := stored.Record
	if rec.Kind != site.KindTokenAdded || rec.Account != added.ID || rec.By != "uid 1000 (ada)" || rec.Detail != `"Lobby": read unlock:1042` {
		t.Errorf("recorded %+v", rec)
	}
	actor, err := h.Authenticate(text)
	if want := (site.Actor{Origin: site.Local, Account: added.ID, Name: "token Lobby"}); err != nil || actor != want {
		t.Errorf("%+v, %v", actor, err)
	}
	for _, bad := range []site.Secret{"", text[:len(text)-1], text + "a", site.Secret(strings.ToUpper(text.Reveal()))} {
		if _, err := h.Authenticate(bad); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("another text: %v", err)
		}
	}
}

func TestService_Add_refused(t *testing.T) {
	h := open()
	h.add(t, "Lobby", time.Time{}, "read")
	read := site.Scope{Read: true}
	for name, c := range map[string]struct {
		name  string
		scope site.Scope
		until time.Time
		kind  fault.Kind
	}{
		"no name":     {"", read, time.Time{}, fault.Invalid},
		"control":     {"a\x1b[31m", read, time.Time{}, fault.Invalid},
		"too long":    {strings.Repeat("é", site.MaxTokenName+1), read, time.Time{}, fault.Invalid},
		"no letter":   {"..", read, time.Time{}, fault.Invalid},
		"no scope":    {"Door", site.Scope{}, time.Time{}, fault.Invalid},
		"expired":     {"Door", read, h.clock.now, fault.Invalid},
		"name taken":  {"Lobby", read, time.Time{}, fault.Conflict},
		"longest one": {strings.Repeat("é", site.MaxTokenName), read, time.Time{}, fault.KindOf(nil)},
	} {
		if _, text, err := h.Add(t.Context(), admin(), c.name, c.scope, c.until); fault.KindOf(err) != c.kind || (err != nil) != (text == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := len(h.Tokens()); i < site.MaxTokens; i++ {
		h.add(t, fmt.Sprintf("n%d", i), time.Time{}, "read")
	}
	if _, _, err := h.Add(t.Context(), admin(), "one more", read, time.Time{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("one more: %v", err)
	}
	h.store.err = errors.New("disk full")
	_ = h.Remove(t.Context(), admin(), "n5")
	if _, text, err := h.Add(t.Context(), admin(), "n5", read, time.Time{}); !fault.Is(err, fault.Unavailable) || text != "" {
		t.Errorf("the name of a token whose removal is not stored: %v", err)
	}
}

func TestService_scopes(t *testing.T) {
	h := open()
	for _, c := range []struct {
		words        []string
		read, unlock []site.StationID // of 1, 2 and 3
	}{
		{[]string{"read"}, []site.StationID{1, 2, 3}, nil},
		{[]string{"unlock:3,1"}, []site.StationID{1, 3}, []site.StationID{1, 3}},
		{[]string{"read", "unlock:2"}, []site.StationID{1, 2, 3}, []site.StationID{2}},
		{[]string{"unlock:*"}, []site.StationID{1, 2, 3}, []site.StationID{1, 2, 3}},
	} {
		added, _ := h.add(t, strings.Join(append(c.words, "x"), " "), h.clock.now.Add(time.Hour), c.words...)
		for id := site.StationID(1); id <= 3; id++ {
			if got, want := h.Scope(added.ID, h.clock.now).MayRead(id), slices.Contains(c.read, id); got != want {
				t.Errorf("%v reads %d: %v", c.words, id, got)
			}
			if got, want := h.Scope(added.ID, h.clock.now).MayUnlock(id), slices.Contains(c.unlock, id); got != want {
				t.Errorf("%v unlocks %d: %v", c.words, id, got)
			}
			end := h.clock.now.Add(time.Hour)
			if h.Scope(added.ID, end).MayRead(id) || h.Scope(added.ID, end).MayUnlock(id) || h.Scope("x", h.clock.now).MayRead(id) || h.Scope("", h.clock.now).MayUnlock(id) {
				t.Errorf("%v: an expired or unknown token may something", c.words)
			}
		}
	}
}

// A token ends at its time, by a clock that need not be trusted.
func TestService_expiry(t *testing.T) {
	h := open()
	_, text := h.add(t, "Lobby", h.clock.now.Add(time.Hour), "read")
	h.clock.now = h.clock.now.Add(time.Hour - time.Millisecond)
	if _, err := h.Authenticate(text); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	h.clock.now = h.clock.now.Add(time.Millisecond)
	if _, err := h.Authenticate(text); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("at its end: %v", err)
	}
	if len(h.Tokens()) != 1 {
		t.Error("an expired token is not listed")
	}
}

// The next request after a removal is refused, also when the storage takes no writes; the
// removal is stored later.
func TestService_Remove(t *testing.T) {
	h := open()
	added, text := h.add(t, "Lobby", time.Time{}, "unlock:*")
	h.store.err = errors.New("disk full")
	if err := h.Remove(t.Context(), admin(), "Lobby"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the storage fails: %v", err)
	}
	if _, err := h.Authenticate(text); !fault.Is(err, fault.Unauthenticated) || h.Scope(added.ID, h.clock.now).MayUnlock(1) || h.Scope(added.ID, h.clock.now).MayRead(1) || len(h.Tokens()) != 0 {
		t.Errorf("after the removal: %v", err)
	}
	if err := h.changes.Settle(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("the storage fails still: %v", err)
	}
	h.store.err = nil
	if err := h.changes.Settle(t.Context()); err != nil || h.store.amended[1].RemoveToken != added.ID || h.store.amended[1].Record.Kind != site.KindTokenRemoved {
		t.Errorf("%v, %+v", err, h.store.amended)
	}
	if err := h.changes.Settle(t.Context()); err != nil || len(h.store.amended) != 2 {
		t.Errorf("stored twice: %v", err)
	}
	if err := h.Remove(t.Context(), admin(), "Lobby"); !fault.Is(err, fault.NotFound) {
		t.Errorf("once more: %v", err)
	}
	if again, _ := h.add(t, "Lobby", time.Time{}, "read"); again.ID == added.ID {
		t.Error("an id is used twice")
	}
}

// A station that is removed leaves every scope: one that is enrolled later under its id is
// another one.
func TestService_stationRemoved(t *testing.T) {
	h := open()
	added, text := h.add(t, "Lobby", time.Time{}, "unlock:1,2")
	all, _ := h.add(t, "All", time.Time{}, "unlock:*")
	err := h.changes.Make(t.Context(), site.Actor{}, func() ([]site.Amendment, error) { return []site.Amendment{{RemoveStation: 1}}, nil })
	if err != nil || h.Scope(added.ID, h.clock.now).MayUnlock(1) || !h.Scope(added.ID, h.clock.now).MayUnlock(2) || !h.Scope(all.ID, h.clock.now).MayUnlock(1) {
		t.Errorf("%v, %v", err, h.Tokens())
	}
	if _, err := h.Authenticate(text); err != nil {
		t.Error(err)
	}
}

// When a token was used last is known at once, and handed to the store only if it changed.
func TestService_Uses(t *testing.T) {
	former := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h := open(site.Token{ID: "a", Name: "a", Sum: sha256.Sum256([]byte("x")), Used: site.At(former), Scope: site.Scope{Read: true}})
	added, text := h.add(t, "b", time.Time{}, "read")
	if uses := h.Uses(); len(uses) != 0 || !h.Tokens()[0].Used.Equal(former) || !h.Tokens()[1].Used.IsZero() {
		t.Errorf("%v, %v", uses, h.Tokens())
	}
	if _, err := h.Authenticate(text); err != nil {
		t.Fatal(err)
	}
	uses := h.Uses()
	if len(uses) != 1 || !uses[added.ID].Equal(h.clock.now) || !h.Tokens()[1].Used.Equal(h.clock.now) {
		t.Errorf("%v, %v", uses, h.Tokens())
	}
	h.UsesStored(uses)
	if len(h.Uses()) != 0 {
		t.Error("stored and not noted")
	}
}

func TestScope(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string // "" is an error
	}{
		{[]string{"read"}, `["read"]`},
		{[]string{"unlock:7,3,7", "read"}, `["read","unlock:3,7"]`},
		{[]string{"unlock:3", "unlock:4"}, `["unlock:3,4"]`},
		{[]string{"unlock:*", "unlock:*"}, `["unlock:*"]`},
		{nil, `[]`},
		{[]string{"write"}, ""},
		{[]string{"unlock:"}, ""},
		{[]string{"unlock:0"}, ""},
		{[]string{"unlock:*,3"}, ""},
		{[]string{"unlock:*", "unlock:3"}, ""},
		{[]string{"unlock"}, ""},
		{[]string{"unlock: 3"}, ""},
		{[]string{"Read"}, ""},
	} {
		s, err := site.ParseScope(c.words)
		text, _ := s.MarshalJSON()
		if (err == nil) != (c.want != "") || err == nil && string(text) != c.want {
			t.Errorf("%q is %s, %v", c.words, text, err)
		}
	}
	var many site.Scope
	for id := site.StationID(1); id <= site.MaxScope+1; id++ {
		many.Unlock = append(many.Unlock, id)
	}
	if _, err := site.ParseScope(many.Words()); err == nil {
		t.Error("a scope without bound")
	}
}
