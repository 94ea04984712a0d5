package access_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/site"
)

func TestService_Login_failureRecord(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
	h.refused(h.try("hunter2@example.test", wrong, address(2)), "Invalid credentials")
	h.refused(h.try("my secret pass phrase", wrong, address(3)), "Invalid credentials")
	want := []site.Facts{
		{Origin: site.Local, Account: account.ID, Email: porter, Remote: "10.0.0.1"},
		{Origin: site.Local, Remote: "10.0.0.2"}, // an address without account is the attacker's text
		{Origin: site.Local, Remote: "10.0.0.3"},
	}
	got := h.store.of(site.KindLoginFailed)
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Facts != want[i] {
			t.Errorf("record %d is %+v, want %+v", i, got[i].Facts, want[i])
		}
	}
}

// An outsider cannot fill the journal: one record a minute and address, which
// counts what it stands for.
func TestService_Login_failureRecordsBounded(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	for range 5 {
		h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
	}
	if n := len(h.store.of(site.KindLoginFailed)); n != 1 {
		t.Fatalf("%d records within a minute", n)
	}
	h.clock.advance(access.FailureEvery)
	h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
	second := h.store.of(site.KindLoginFailed)[1]
	if second.Count != 5 || second.Account != account.ID {
		t.Errorf("the record is %+v, want a count of 5", second.Facts)
	}
	h.clock.advance(access.FailureEvery)
	h.refused(h.try(guest, wrong, address(1)), "Invalid credentials")
	h.refused(h.try(guest, wrong, address(1)), "Invalid credentials")
	h.clock.advance(access.FailureEvery)
	h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
	mixed := h.store.of(site.KindLoginFailed)[3]
	if mixed.Count != 2 || mixed.Email != "" || mixed.Account != "" {
		t.Errorf("failures of several accounts are put on one: %+v", mixed.Facts)
	}
}

func TestService_Login_failureRecordsOfManyAddresses(t *testing.T) {
	h := open(t)
	h.fakeHashing()
	for i := range 10 * access.MaxFailing {
		h.refused(h.try(fmt.Sprintf("u%d@example.test", i), wrong, address(i)), "Invalid credentials")
	}
	got := h.store.of(site.KindLoginFailed)
	if len(got) != access.MaxFailing+1 {
		t.Fatalf("%d records in one minute", len(got))
	}
	if last := got[len(got)-1]; last.Remote != "" {
		t.Errorf("the shared record names %s alone", last.Remote)
	}
	h.clock.advance(access.FailureEvery)
	h.refused(h.try(guest, wrong, address(5000)), "Invalid credentials") // places are free again
	got = h.store.of(site.KindLoginFailed)
	if last := got[len(got)-1]; last.Remote != address(5000).String() {
		t.Errorf("the record is %+v", last.Facts)
	}
}

func TestService_Login_failureCannotBeRecorded(t *testing.T) {
	h := open(t)
	h.store.fail("AppendRecord", errDisk)
	h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
}

// Failures that no later one brings to the journal are written by Run.
func TestService_Run_writesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, func(c *access.Config) { c.Clock = processClock{} })
		h.add(porter)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		for range 4 {
			h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
		}
		time.Sleep(2 * access.SettleEvery) // of the bubble's clock
		synctest.Wait()
		got := h.store.of(site.KindLoginFailed)
		if len(got) != 2 || got[1].Count != 3 || got[1].Email != porter {
			t.Errorf("the records are %+v", got)
		}
		time.Sleep(10 * access.SettleEvery)
		synctest.Wait()
		if n := len(h.store.of(site.KindLoginFailed)); n != 2 {
			t.Errorf("%d records of what failed once", n)
		}
		if _, _, failing := h.Tracked(); failing != 0 {
			t.Errorf("%d addresses are still tracked", failing)
		}
		cancel()
		h.ok(<-done)
	})
}

func TestService_Login_withoutAddress(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.ok(h.try(porter, right, netip.Addr{}))
	h.refused(h.try(porter, wrong, netip.Addr{}), "Invalid credentials")
	if got := h.store.of(site.KindLogin)[0].Remote + h.store.of(site.KindLoginFailed)[0].Remote; got != "" {
		t.Errorf("the address is %q", got)
	}
}
