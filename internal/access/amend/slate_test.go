package amend_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/site"
)

// memorySlate is a Slate in memory.
type memorySlate struct{ held []byte }

func (m *memorySlate) Room() int                  { return 1000 }
func (m *memorySlate) Hold(content []byte) error  { m.held = content; return nil }
func (m *memorySlate) Save(context.Context) error { return nil }

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
	report := func(n int, _ bool) { unstored = n }
	s := amend.New(disk)
	if err := s.Resume(slate, nil, 41, report); err != nil {
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
	if err := s.Resume(slate, slate.held, 42, report); err != nil || unstored != 2 || !slices.Equal(pending, []site.StationID{2, 3}) {
		t.Errorf("pending %v, %d reported, %v", pending, unstored, err)
	}
	broken = nil
	if err := s.Settle(t.Context()); err != nil || unstored != 0 || len(slate.held) != 0 || len(pending) != 0 {
		t.Errorf("pending %v, %d reported, held %s: %v", pending, unstored, slate.held, err)
	}
	if got := removed(stored); !slices.Equal(got, []site.StationID{2, 3}) || stored[1].Revocation != 44 {
		t.Errorf("stored %+v", stored)
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
		if err := s.Resume(&memorySlate{}, []byte(content), 0, func(int, bool) {}); err == nil || len(pending) != want {
			t.Errorf("%s: %d are pending, %v", content, len(pending), err)
		}
	}
}

// Nor is it an error where it was stored.
func TestService_Resume_unknownStored(t *testing.T) {
	s := amend.New(nil)
	content := []byte(`{"RemoveRoof":1,"Record":{},"Revocation":2}`)
	if err := s.Resume(&memorySlate{}, content, 2, func(int, bool) {}); err != nil {
		t.Error(err)
	}
}

// The sessions that an account ends of its own take little room, however many there are: the
// slate holds them as one amendment.
func TestService_Resume_ownSessions(t *testing.T) {
	disk := store(func(context.Context, []site.Amendment) error { return errors.New("disk full") })
	slate, covered := &memorySlate{}, false
	s := amend.New(disk)
	if err := s.Resume(slate, nil, 0, func(_ int, held bool) { covered = held }); err != nil {
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
	if err := s.Resume(slate, slate.held, 98, func(int, bool) {}); err != nil || len(pending) != 2 {
		t.Fatalf("pending: %+v, %v", pending, err)
	}
	for i, account := range []site.AccountID{"guest", "porter"} {
		rec := site.Record{Kind: site.KindSessionRevoked, Facts: site.Facts{Origin: site.Local, Account: account, Count: 50}}
		if got := pending[i]; !slices.Equal(got.EndSessions, want) || !reflect.DeepEqual(got.Record, rec) || got.Revocation != uint64(99+i) {
			t.Errorf("pending: %+v", got)
		}
	}
}

// Accounts that end many sessions displace nothing that an administrator revokes.
func TestService_Resume_room(t *testing.T) {
	disk := store(func(context.Context, []site.Amendment) error { return errors.New("disk full") })
	slate, covered := &memorySlate{}, true
	s := amend.New(disk)
	if err := s.Resume(slate, nil, 0, func(_ int, held bool) { covered = held }); err != nil {
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
	if err := s.Resume(slate, slate.held, 0, func(int, bool) {}); err != nil {
		t.Fatal(err)
	}
	if last := len(pending) - 1; last < 1 || pending[last].RemoveAccount != "guest" || pending[0].Revocation != 1 {
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
		{UpdateAccount: &site.Account{ID: "a", Email: "a@example.test", Created: now}},
		{RemoveStation: 7},
		{DropSecret: 7},
		{LowerMode: &site.StationMode{Station: 7, HomeAssistant: site.HomeAssistantOff}},
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
	if err := s.Resume(&memorySlate{}, text, 0, func(int, bool) {}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v:\n%+v\n%+v", err, got, want)
	}
}
