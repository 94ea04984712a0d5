package amend_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/site"
)

// memorySlate is a Slate in memory.
type memorySlate struct {
	held []byte
	room int // 0: 1,000
}

func (m *memorySlate) Room() int                  { return cmp.Or(m.room, 1000) }
func (m *memorySlate) Hold(content []byte) error  { m.held = content; return nil }
func (m *memorySlate) Save(context.Context) error { return nil }

// memoryCopy is a Copy that has the revocations up to a number.
type memoryCopy struct {
	has   uint64
	asked int // how often it was to be written
}

func (c *memoryCopy) Copied() uint64 { return c.has }
func (c *memoryCopy) CopyNow()       { c.asked++ }

// What could not be stored before the process ended is pending again, and nothing that was
// stored.
func TestService_Resume(t *testing.T) {
	var stored []site.Amendment
	broken := errors.New("disk full")
	disk := store(func(_ context.Context, all []site.Amendment) error {
		if broken == nil {
			stored = append(stored, all...)
		}
		return broken
	})
	slate, unstored := &memorySlate{}, 0
	report := func(h amend.Held) { unstored = h.Unstored }
	s := amend.New(disk)
	if err := s.Resume(t.Context(), slate, nil, 41, new(memoryCopy), report); err != nil {
		t.Fatal(err)
	}
	for id := range site.StationID(3) {
		_ = s.Revoke(t.Context(), site.Actor{}, removing(id+1))
	}
	if unstored != 3 {
		t.Errorf("%d are reported", unstored)
	}
	s = amend.New(disk)
	var pending []site.StationID
	s.OnPending(func(all []site.Amendment) { pending = removed(all) })
	if err := s.Resume(t.Context(), slate, slate.held, 41+amend.Stride, new(memoryCopy), report); err != nil || unstored != 2 || !slices.Equal(pending, []site.StationID{2, 3}) {
		t.Errorf("pending %v, %d reported, %v", pending, unstored, err)
	}
	broken = nil
	if err := s.Settle(t.Context()); err != nil || unstored != 0 || len(pending) != 0 {
		t.Errorf("pending %v, %d reported: %v", pending, unstored, err)
	}
	if got := removed(stored); !slices.Equal(got, []site.StationID{2, 3}) || stored[1].Revocation != 41+3*amend.Stride {
		t.Errorf("stored %+v", stored)
	}
}

// What was stored is held until the copy has it too, and pending again where a damaged database
// was replaced by a copy without it.
func TestService_Resume_copy(t *testing.T) {
	slate, copied := &memorySlate{}, new(memoryCopy)
	s := amend.New(store(func(context.Context, []site.Amendment) error { return nil }))
	report := func(h amend.Held) {
		if h.Unstored > 0 {
			t.Errorf("held: %+v", h)
		}
	}
	if err := s.Resume(t.Context(), slate, nil, 0, copied, report); err != nil {
		t.Fatal(err)
	}
	for id := range site.StationID(3) {
		if err := s.Revoke(t.Context(), site.Actor{}, removing(id+1)); err != nil {
			t.Error(err)
		}
		copied.has = amend.Stride // after the first
	}
	for stored, want := range map[uint64][]site.StationID{amend.Stride: {2, 3}, 3 * amend.Stride: nil} {
		var pending []site.StationID
		s = amend.New(store(func(context.Context, []site.Amendment) error { return errors.New("disk full") }))
		s.OnPending(func(all []site.Amendment) { pending = removed(all) })
		again := &memorySlate{}
		if err := s.Resume(t.Context(), again, slate.held, stored, copied, func(amend.Held) {}); err != nil || !slices.Equal(pending, want) {
			t.Errorf("stored up to %d: pending %v, %v", stored, pending, err)
		}
		if !bytes.Equal(again.held, slate.held) {
			t.Errorf("stored up to %d: held %s", stored, again.held)
		}
	}
	copied.has, s = 3*amend.Stride, amend.New(nil)
	if err := s.Resume(t.Context(), slate, slate.held, copied.has, copied, report); err != nil || len(slate.held) > 0 {
		t.Errorf("held %s, %v", slate.held, err)
	}
}

// However many sessions an account or an administrator ends, those of others have room.
func TestService_Resume_shares(t *testing.T) {
	disk := store(func(context.Context, []site.Amendment) error { return errors.New("disk full") })
	slate, covered := &memorySlate{room: 20_000}, true
	s := amend.New(disk)
	if err := s.Resume(t.Context(), slate, nil, 0, new(memoryCopy), func(h amend.Held) { covered = h.Unheld == 0 }); err != nil {
		t.Fatal(err)
	}
	var all []site.Amendment
	for account, n := range map[site.AccountID]int{"app": 1000, "ann": 1, "zoe": 1} {
		var ids []site.SessionID
		for i := range n {
			ids = append(ids, site.SessionID(fmt.Sprintf("session %d of the account %s", i, account)))
		}
		all = append(all, site.Amendment{
			EndSessions: ids, Record: site.Record{Kind: site.KindSessionRevoked, Facts: site.Facts{Origin: site.Admin, By: "boss", Account: account, Count: n}},
		})
	}
	_ = s.Revoke(t.Context(), site.Actor{}, func() ([]site.Amendment, error) { return all, nil })
	if covered {
		t.Error("all of it is said to be held")
	}
	held := map[site.AccountID]int{}
	s = amend.New(disk)
	s.OnPending(func(all []site.Amendment) {
		clear(held)
		for _, a := range all {
			held[a.Record.Account] += len(a.EndSessions)
		}
	})
	if err := s.Resume(t.Context(), slate, slate.held, 0, new(memoryCopy), func(amend.Held) {}); err != nil {
		t.Fatal(err)
	}
	if held["ann"] != 1 || held["zoe"] != 1 || held["app"] < 200 {
		t.Errorf("held: %v", held)
	}
}

// What a later version wrote keeps nothing else from being in effect.
func TestService_Resume_unknown(t *testing.T) {
	for content, want := range map[string]int{
		`{"RemoveStation":7,"Record":{},"Revocation":1}` + "\n" + `{"RemoveRoof":1,"Record":{},"Revocation":2}` + "\n": 1,
		`{"RemoveStation":"seven","Revocation":1}`: 0,
		`[`: 0,
	} {
		var pending []site.Amendment
		s := amend.New(nil)
		s.OnPending(func(all []site.Amendment) { pending = all })
		if err := s.Resume(t.Context(), &memorySlate{}, []byte(content), 0, new(memoryCopy), func(amend.Held) {}); err == nil || len(pending) != want {
			t.Errorf("%s: %d are pending, %v", content, len(pending), err)
		}
	}
}

// Nor is it an error where it was stored.
func TestService_Resume_unknownStored(t *testing.T) {
	s := amend.New(nil)
	content := []byte(`{"RemoveRoof":1,"Record":{},"Revocation":2}`)
	if err := s.Resume(t.Context(), &memorySlate{}, content, 2, new(memoryCopy), func(amend.Held) {}); err != nil {
		t.Error(err)
	}
}

// The sessions that an account ends of its own take little room, however many there are: the
// slate holds them as one amendment.
func TestService_Resume_ownSessions(t *testing.T) {
	disk := store(func(context.Context, []site.Amendment) error { return errors.New("disk full") })
	slate, covered := &memorySlate{}, false
	s := amend.New(disk)
	if err := s.Resume(t.Context(), slate, nil, 0, new(memoryCopy), func(h amend.Held) { covered = h.Unheld == 0 }); err != nil {
		t.Fatal(err)
	}
	var want []site.SessionID
	for n := range 50 {
		id := site.SessionID(fmt.Sprint(n))
		for _, account := range []site.AccountID{"guest", "porter"} {
			rec := site.Record{Kind: site.KindSessionRevoked, Facts: site.Facts{Origin: site.Local, Account: account, Session: id, Count: 1}}
			_ = s.Revoke(t.Context(), site.Actor{}, func() ([]site.Amendment, error) {
				return []site.Amendment{{EndSessions: []site.SessionID{id}, Record: rec}}, nil
			})
		}
		want = append(want, id)
	}
	if !covered {
		t.Error("some of it is said not to be held")
	}
	var pending []site.Amendment
	s = amend.New(disk)
	s.OnPending(func(all []site.Amendment) { pending = all })
	if err := s.Resume(t.Context(), slate, slate.held, 98*amend.Stride, new(memoryCopy), func(amend.Held) {}); err != nil || len(pending) != 2 {
		t.Fatalf("pending: %+v, %v", pending, err)
	}
	for i, account := range []site.AccountID{"guest", "porter"} {
		rec := site.Record{Kind: site.KindSessionRevoked, Facts: site.Facts{Origin: site.Local, Account: account, Count: 50}}
		if got := pending[i]; !slices.Equal(got.EndSessions, want) || !reflect.DeepEqual(got.Record, rec) || got.Revocation != uint64(99+i)*amend.Stride {
			t.Errorf("pending: %+v", got)
		}
	}
}

// Accounts that end many sessions displace nothing that an administrator revokes.
func TestService_Resume_room(t *testing.T) {
	disk := store(func(context.Context, []site.Amendment) error { return errors.New("disk full") })
	slate, covered := &memorySlate{}, true
	s := amend.New(disk)
	if err := s.Resume(t.Context(), slate, nil, 0, new(memoryCopy), func(h amend.Held) { covered = h.Unheld == 0 }); err != nil {
		t.Fatal(err)
	}
	revoke := func(a site.Amendment) {
		_ = s.Revoke(t.Context(), site.Actor{}, func() ([]site.Amendment, error) { return []site.Amendment{a}, nil })
	}
	for n := range 50 {
		revoke(site.Amendment{
			EndSessions: []site.SessionID{site.SessionID(fmt.Sprint(n))},
			Record:      site.Record{Kind: site.KindSessionRevoked, Facts: site.Facts{Origin: site.Local, Account: site.AccountID(fmt.Sprint("guest-", n))}},
		})
	}
	revoke(site.Amendment{RemoveAccount: "guest", Record: site.Record{Kind: site.KindAccountRemoved, Facts: site.Facts{Origin: site.Admin}}})
	if covered {
		t.Error("all of it is said to be held")
	}
	var pending []site.Amendment
	s = amend.New(disk)
	s.OnPending(func(all []site.Amendment) { pending = all })
	if err := s.Resume(t.Context(), slate, slate.held, 0, new(memoryCopy), func(amend.Held) {}); err != nil {
		t.Fatal(err)
	}
	if last := len(pending) - 1; last < 1 || pending[last].RemoveAccount != "guest" || pending[0].Revocation != amend.Stride {
		t.Errorf("pending: %+v", pending)
	}
}

// Every revocation is the same after it was written down and read.
func TestAmendment_written(t *testing.T) {
	hours, err := site.ParseSchedule("Mon-Fri 08:00-18:00")
	dates, failed := site.ParseDates("2026-12-24..2026-12-26")
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	now := site.At(time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC))
	want := []site.Amendment{
		{EndSessions: []site.SessionID{"a", "b"}},
		{RemoveAccount: "a"},
		{DropPassword: "a"},
		{UpdateAccount: &site.Account{ID: "a", Email: "a@example.test", Created: now}},
		{RemoveStation: 7},
		{DropSecret: 7},
		{LimitStation: &site.StationLimit{Station: 7, HomeAssistant: site.HomeAssistantOff}},
		{NarrowGrant: &site.Grant{Account: "a", StationGroup: "doors", Terms: site.Terms{From: now, Until: now, Hours: hours, Holidays: hours}}},
		{RemoveGrant: &site.GrantKey{AccountGroup: "people", Station: 7}},
		{RemoveGroup: "people"},
		{RemoveMember: &site.Member{Group: "people", Account: "a"}},
		{AddDates: &site.Holiday{Name: "Christmas", Dates: []site.Dates{dates}}},
		{RemoveHoliday: "Christmas"},
		{RemoveToken: "a"},
	}
	for i := range want {
		want[i].Revocation = uint64(i) + 1
		want[i].Record = site.Record{Kind: site.KindUngranted, Facts: site.Facts{Origin: site.Admin, By: "ada", Account: "a", Detail: "why", Count: 2}}
	}
	var text []byte
	for _, a := range want {
		line, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	var got []site.Amendment
	s := amend.New(nil)
	s.OnPending(func(all []site.Amendment) { got = all })
	if err := s.Resume(t.Context(), &memorySlate{}, text, 0, new(memoryCopy), func(amend.Held) {}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v:\n%+v\n%+v", err, got, want)
	}
}

// The slate holds the revoking part of a change once that is stored, until the copy has it. A change that waits while something is
// revoked is stored before that, so that the number of the last one that is stored counts both.
func TestService_Make_held(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stored []site.Amendment
		holding := make(chan struct{})
		disk := store(func(_ context.Context, all []site.Amendment) error {
			if all[0].AddGroup != nil {
				<-holding
			}
			stored = append(stored, all...)
			return nil
		})
		slate, copied := &memorySlate{}, new(memoryCopy)
		s := amend.New(disk)
		if err := s.Resume(t.Context(), slate, nil, 41, copied, func(amend.Held) {}); err != nil {
			t.Fatal(err)
		}
		adding := []site.Amendment{{AddGroup: &site.Group{Name: "people"}}}
		go func() {
			_ = s.Make(t.Context(), site.Actor{}, func() ([]site.Amendment, error) { return adding, nil })
		}()
		synctest.Wait()
		grant := site.Grant{Account: "a", Station: 7}
		for range 2 {
			go func() {
				_ = s.Make(t.Context(), site.Actor{}, func() ([]site.Amendment, error) {
					return []site.Amendment{{PutGrant: &grant}, {AddMember: &site.Member{Group: "people"}}}, nil
				})
			}()
		}
		synctest.Wait()
		go func() { _ = s.Revoke(t.Context(), site.Actor{}, removing(7)) }()
		synctest.Wait()
		close(holding)
		synctest.Wait()
		var last uint64
		for _, a := range stored {
			if a.AddGroup == nil && a.Revocation < max(last, 42) {
				t.Errorf("stored %+v", stored)
			}
			last = max(last, a.Revocation)
		}
		for has, want := range map[uint64]int{41: 3, stored[1].Revocation: 2, last: 0} {
			var pending []site.Amendment
			s := amend.New(store(func(context.Context, []site.Amendment) error { return errors.New("disk full") }))
			s.OnPending(func(all []site.Amendment) { pending = all })
			if err := s.Resume(t.Context(), &memorySlate{}, slate.held, has, copied, func(amend.Held) {}); err != nil || len(pending) != want {
				t.Errorf("%d are stored: pending %+v, %v", has, pending, err)
			}
		}
		copied.has = last
		s.Copied(t.Context(), nil)
		if len(slate.held) > 0 {
			t.Errorf("held %s", slate.held)
		}
	})
}

// The copy is asked for, once, before the slate is full of revocations that only wait for it; those without room are
// reported from when the copy cannot be written until it has them.
func TestService_Copied(t *testing.T) {
	var got amend.Held
	copied := new(memoryCopy)
	s := amend.New(store(func(context.Context, []site.Amendment) error { return nil }))
	if err := s.Resume(t.Context(), &memorySlate{}, nil, 0, copied, func(h amend.Held) { got = h }); err != nil {
		t.Fatal(err)
	}
	const n = 50
	for id := range site.StationID(n) {
		if err := s.Revoke(t.Context(), site.Actor{}, removing(id+1)); err != nil {
			t.Fatal(err)
		}
	}
	if got != (amend.Held{At: amend.OnDisk}) || copied.asked != 1 {
		t.Errorf("%+v, asked %d times", got, copied.asked)
	}
	s.Copied(t.Context(), errors.New("disk full"))
	if got.Uncopied < 10 || got.Uncopied >= n || got.Unheld+got.Unstored > 0 || copied.asked != 1 {
		t.Errorf("%+v, asked %d times", got, copied.asked)
	}
	copied.has = n * amend.Stride
	s.Copied(t.Context(), nil)
	if got != (amend.Held{At: amend.OnDisk}) {
		t.Errorf("%+v", got)
	}
}

// Unstored revocations for which the slate has no room are counted.
func TestService_Revoke_unheld(t *testing.T) {
	var got amend.Held
	broken := errors.New("disk full")
	s := amend.New(store(func(context.Context, []site.Amendment) error { return broken }))
	if err := s.Resume(t.Context(), &memorySlate{}, nil, 0, new(memoryCopy), func(h amend.Held) { got = h }); err != nil {
		t.Fatal(err)
	}
	const n = 50
	for id := range site.StationID(n) {
		_ = s.Revoke(t.Context(), site.Actor{}, removing(id+1))
	}
	if got.Unstored != n || got.Unheld < 10 || got.Unheld >= n || got.Uncopied > 0 {
		t.Errorf("%+v", got)
	}
	broken = nil
	if err := s.Settle(t.Context()); err != nil || got.Unstored+got.Unheld > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
