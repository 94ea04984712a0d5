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

// flood fails so often, from addresses of its own, that no more failures get a
// record each for now.
func (h *house) flood() {
	h.t.Helper()
	h.fakeHashing()
	for i := range access.FailureBurst {
		h.refused(h.try(fmt.Sprintf("flood%d@example.test", i), wrong, address(10000+i)), "Invalid credentials")
	}
	if n := len(h.store.of(site.KindLoginFailed)); n != access.FailureBurst {
		h.t.Fatalf("%d records of %d failures", n, access.FailureBurst)
	}
}

// beyond returns the records of failed logins after those of [house.flood].
func (h *house) beyond() []site.Record {
	return h.store.of(site.KindLoginFailed)[access.FailureBurst:]
}

// Whatever the throttle lets through from one address gets a record each.
func TestService_Login_failureRecordEach(t *testing.T) {
	h := open(t)
	emails := map[site.AccountID]string{"": ""}
	for _, email := range []string{porter, guest} {
		emails[h.add(email).ID] = email
	}
	for _, email := range []string{porter, guest, "nobody@example.test"} {
		for range access.AccountBurst {
			h.refused(h.try(email, wrong, address(1)), "Invalid credentials")
		}
	}
	got := make(map[string]int)
	for _, r := range h.store.of(site.KindLoginFailed) {
		if r.Count != 0 || r.Remote != "10.0.0.1" || string(r.Email) != emails[r.Account] {
			t.Errorf("the record is %+v", r.Facts)
		}
		got[string(r.Email)]++
	}
	if got[porter] != access.AccountBurst || got[guest] != access.AccountBurst || got[""] != access.AccountBurst {
		t.Errorf("the records are of %v", got)
	}
}

// An outsider with many addresses cannot fill the journal: beyond the bound over all
// there is one record a minute and address, which counts what it stands for.
func TestService_Login_failureRecordsBounded(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	h.flood()
	for range 5 {
		h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
	}
	if got := h.beyond(); len(got) != 1 || got[0].Count != 0 {
		t.Fatalf("the records are %+v, want one at once", got)
	}
	h.clock.advance(access.FailureEach)
	h.refused(h.try(guest, wrong, address(1)), "Invalid credentials")
	if got := h.beyond(); len(got) != 2 || got[1].Count != 0 || got[1].Email != "" {
		t.Fatalf("the records are %+v, want another for itself", got)
	}
	h.clock.advance(access.FailureEvery - access.FailureEach)
	for i := range int(access.FailureEvery/access.FailureEach) - 1 {
		h.refused(h.try(fmt.Sprintf("more%d@example.test", i), wrong, address(20000+i)), "Invalid credentials")
	}
	before := len(h.beyond())
	h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
	second := h.beyond()[before]
	if second.Count != 5 || second.Account != account.ID {
		t.Errorf("the record is %+v, want a count of 5", second.Facts)
	}
	h.refused(h.try(guest, wrong, address(1)), "Invalid credentials")
	h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
	h.flush()
	mixed := h.beyond()[before+1]
	if mixed.Count != 2 || mixed.Email != "" || mixed.Account != "" {
		t.Errorf("failures of several accounts are put on one: %+v", mixed.Facts)
	}
}

func TestService_Login_failureRecordsOfManyAddresses(t *testing.T) {
	h := open(t)
	h.flood()
	for i := range 10 * access.MaxFailing {
		h.refused(h.try(fmt.Sprintf("u%d@example.test", i), wrong, address(i)), "Invalid credentials")
	}
	got := h.beyond()
	if len(got) != access.MaxFailing+1 {
		t.Fatalf("%d records in one minute", len(got))
	}
	if last := got[len(got)-1]; last.Remote != "" {
		t.Errorf("the shared record names %s alone", last.Remote)
	}
	h.flush()
	told := 0
	for _, r := range h.beyond() {
		told += max(r.Count, 1)
	}
	if told != 10*access.MaxFailing {
		t.Errorf("the records account for %d failures of %d", told, 10*access.MaxFailing)
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
		h.flood()
		for range 4 {
			h.refused(h.try(porter, wrong, address(1)), "Invalid credentials")
		}
		time.Sleep(2 * access.FlushEvery) // of the bubble's clock
		synctest.Wait()
		got := h.beyond()
		if len(got) != 2 || got[1].Count != 3 || got[1].Email != porter {
			t.Errorf("the records are %+v", got)
		}
		time.Sleep(10 * access.FlushEvery)
		synctest.Wait()
		if n := len(h.beyond()); n != 2 {
			t.Errorf("%d records of what failed once", n)
		}
		cancel()
		h.ok(<-done)
	})
}

// What is held back when Run ends is written then, though its context is cancelled.
func TestService_Run_writesFailuresAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, func(c *access.Config) { c.Clock = processClock{} })
		h.add(porter)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		h.flood()
		for i := range 8 {
			h.refused(h.try(porter, wrong, address(1+i%2)), "Invalid credentials")
		}
		cancel()
		h.ok(<-done)
		if got := h.beyond(); len(got) != 4 || got[2].Count != 3 || got[3].Count != 3 || got[2].Email != porter {
			t.Errorf("the records are %+v", got)
		}
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
