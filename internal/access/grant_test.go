package access_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// hours reads a schedule that must be good.
func hours(t *testing.T, text string) site.Schedule {
	t.Helper()
	s, err := site.ParseSchedule(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put stores a grant and requires that it changed something.
func (h *house) put(grant site.Grant) {
	h.t.Helper()
	changed, err := h.PutGrant(context.Background(), admin(), grant)
	if err != nil || !changed {
		h.t.Fatalf("putting a grant: %v, changed %v", err, changed)
	}
}

func TestService_Permits(t *testing.T) {
	h := open(t) // it is Saturday, 07:00:00.250 UTC
	account, other := h.add(porter), h.add(guest)
	now := h.clock.Now()
	berlin, err := time.LoadLocation("Europe/Berlin")
	h.ok(err)
	cases := map[string]struct {
		grant site.Grant
		zone  *time.Location
		want  bool
	}{
		"without limits":     {site.Grant{}, time.UTC, true},
		"begun":              {site.Grant{Terms: site.Terms{From: site.At(now)}}, time.UTC, true},
		"not begun":          {site.Grant{Terms: site.Terms{From: site.At(now.Add(time.Millisecond))}}, time.UTC, false},
		"not ended":          {site.Grant{Terms: site.Terms{Until: site.At(now.Add(time.Millisecond))}}, time.UTC, true},
		"ended":              {site.Grant{Terms: site.Terms{Until: site.At(now)}}, time.UTC, false},
		"within hours":       {site.Grant{Terms: site.Terms{Hours: hours(t, "Sat 07:00-08:00")}}, time.UTC, true},
		"outside hours":      {site.Grant{Terms: site.Terms{Hours: hours(t, "Mon-Fri 07:00-08:00")}}, time.UTC, false},
		"hours of this zone": {site.Grant{Terms: site.Terms{Hours: hours(t, "Sat 08:00-09:00")}}, berlin, true},
		"hours of another":   {site.Grant{Terms: site.Terms{Hours: hours(t, "Sat 08:00-09:00")}}, time.UTC, false},
		"within hours, over": {site.Grant{Terms: site.Terms{Until: site.At(now), Hours: hours(t, "Sat 07:00-08:00")}}, time.UTC, false},
	}
	station := site.StationID(0)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			station++
			h.SetZone(c.zone)
			c.grant.Account, c.grant.Station = account.ID, station
			h.put(c.grant)
			if got := h.Permits(account.ID, station); got != c.want {
				t.Errorf("permits %v", got)
			}
			if got := slices.Contains(h.Granted(account.ID), station); got != c.want {
				t.Errorf("granted %v", got)
			}
			if h.Permits(other.ID, station) || h.Permits(account.ID, 999) || h.Permits("", station) || h.Permits("x", station) {
				t.Error("it holds for someone or something else too")
			}
		})
	}
	h.SetZone(nil)
	_ = h.Granted(account.ID)
	h.SetZone(time.UTC)
	if got := h.Granted(account.ID); !slices.IsSorted(got) {
		t.Errorf("the stations are not in order: %v", got)
	}
	h.agree()
}

func TestService_Permits_overTime(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	h.put(site.Grant{Account: account.ID, Station: 1, Terms: site.Terms{Until: site.At(h.clock.Now().Add(time.Hour))}})
	h.clock.advance(time.Hour - time.Millisecond)
	if !h.Permits(account.ID, 1) {
		t.Error("it ended early")
	}
	h.clock.advance(time.Millisecond)
	if h.Permits(account.ID, 1) {
		t.Error("it did not end")
	}
}

func TestService_PutGrant(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	grant := site.Grant{Account: account.ID, Station: 7}
	h.put(grant)
	changed, err := h.PutGrant(t.Context(), admin(), grant)
	if changed || err != nil {
		t.Errorf("the same again: %v, %v", changed, err)
	}
	grant.From, grant.Hours = site.At(h.clock.Now().Add(300*time.Microsecond).In(time.FixedZone("x", 3600))), hours(t, "Mon-Fri 08:00-18:00")
	h.put(grant)
	grant.From = site.At(h.clock.Now())
	if changed, _ := h.PutGrant(t.Context(), admin(), grant); changed {
		t.Error("the same in another zone and with a smaller fraction counts as a change")
	}
	grant.Until = site.At(h.clock.Now().Add(time.Hour))
	h.put(grant)
	want := []string{
		"without limits",
		"from 2026-11-21T07:00:00.250Z, Mon-Fri 08:00-18:00; before: without limits",
		"from 2026-11-21T07:00:00.250Z, until 2026-11-21T08:00:00.250Z, Mon-Fri 08:00-18:00; " +
			"before: from 2026-11-21T07:00:00.250Z, Mon-Fri 08:00-18:00",
	}
	records := h.store.of(site.KindGranted)
	if len(records) != len(want) {
		t.Fatalf("%d records", len(records))
	}
	for i, r := range records {
		facts := site.Facts{Origin: site.Admin, By: admin().Name, Account: account.ID, Email: porter, Station: 7, Detail: want[i]}
		if r.Facts != facts {
			t.Errorf("record %d is %+v, want %+v", i, r.Facts, facts)
		}
	}
	h.agree()
}

func TestService_PutGrant_refused(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	now := h.clock.Now()
	for name, c := range map[string]struct {
		grant site.Grant
		kind  fault.Kind
	}{
		"no account":      {site.Grant{Station: 7}, fault.NotFound},
		"unknown account": {site.Grant{Account: "x", Station: 7}, fault.NotFound},
		"no station":      {site.Grant{Account: account.ID}, fault.Invalid},
		"bad station":     {site.Grant{Account: account.ID, Station: -1}, fault.Invalid},
		"unknown station": {site.Grant{Account: account.ID, Station: 10000}, fault.NotFound},
		"ends at once":    {site.Grant{Account: account.ID, Station: 7, Terms: site.Terms{From: site.At(now), Until: site.At(now)}}, fault.Invalid},
		"ends before":     {site.Grant{Account: account.ID, Station: 7, Terms: site.Terms{From: site.At(now), Until: site.At(now.Add(-time.Hour))}}, fault.Invalid},
	} {
		changed, err := h.PutGrant(t.Context(), admin(), c.grant)
		if changed || !fault.Is(err, c.kind) {
			t.Errorf("%s: %v, %v", name, changed, err)
		}
	}
	h.store.fail("PutGrant", errDisk)
	changed, err := h.PutGrant(t.Context(), admin(), site.Grant{Account: account.ID, Station: 7})
	h.is(err, fault.Unavailable)
	if changed || h.Permits(account.ID, 7) || len(h.Grants()) != 0 {
		t.Error("a grant that is not stored holds")
	}
}

func TestService_Grants(t *testing.T) {
	h := open(t)
	a, b := h.add(porter), h.add(guest)
	for _, g := range []site.Grant{{Account: a.ID, Station: 2}, {Account: a.ID, Station: 1}, {Account: b.ID, Station: 9}} {
		h.put(g)
	}
	got := h.Grants()
	if len(got) != 3 || got[0].Account != b.ID || got[1].Station != 1 || got[2].Station != 2 {
		t.Errorf("the grants are %+v", got)
	}
}

func TestService_RemoveGrant(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	h.put(site.Grant{Account: account.ID, Station: 7})
	h.put(site.Grant{Account: account.ID, Station: 8})
	ctx := t.Context()
	h.is(h.RemoveGrant(ctx, admin(), site.GrantKey{Account: account.ID, Station: 9}), fault.NotFound)
	h.is(h.RemoveGrant(ctx, admin(), site.GrantKey{Account: "x", Station: 7}), fault.NotFound)
	h.ok(h.RemoveGrant(ctx, admin(), site.GrantKey{Account: account.ID, Station: 7}))
	if h.Permits(account.ID, 7) || !h.Permits(account.ID, 8) {
		t.Error("the wrong grant is withdrawn")
	}
	h.is(h.RemoveGrant(ctx, admin(), site.GrantKey{Account: account.ID, Station: 7}), fault.NotFound)
	want := site.Facts{Origin: site.Admin, By: admin().Name, Account: account.ID, Email: porter, Station: 7}
	if got := h.store.of(site.KindUngranted); len(got) != 1 || got[0].Facts != want {
		t.Errorf("the records are %+v", got)
	}
	h.agree()
}

// A withdrawal that cannot be stored takes effect all the same; a retry tries again.
func TestService_RemoveGrant_storageFailing(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	h.put(site.Grant{Account: account.ID, Station: 7})
	h.store.fail("RemoveGrant", errDisk)
	for range 2 {
		h.is(h.RemoveGrant(t.Context(), admin(), site.GrantKey{Account: account.ID, Station: 7}), fault.Unavailable)
		if h.Permits(account.ID, 7) || len(h.Granted(account.ID)) != 0 || len(h.Grants()) != 0 {
			t.Error("a withdrawn grant holds")
		}
	}
	h.store.fail("RemoveGrant", nil)
	h.ok(h.RemoveGrant(t.Context(), admin(), site.GrantKey{Account: account.ID, Station: 7}))
	h.is(h.RemoveGrant(t.Context(), admin(), site.GrantKey{Account: account.ID, Station: 7}), fault.NotFound)
	h.agree()
}

func TestService_RemoveGrant_rowVanished(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	h.put(site.Grant{Account: account.ID, Station: 7})
	delete(h.store.grants, site.GrantKey{Account: account.ID, Station: 7})
	h.ok(h.RemoveGrant(t.Context(), admin(), site.GrantKey{Account: account.ID, Station: 7}))
	h.is(h.RemoveGrant(t.Context(), admin(), site.GrantKey{Account: account.ID, Station: 7}), fault.NotFound)
	if n := h.store.called("RemoveGrant"); n != 1 {
		t.Errorf("the store was asked %d times", n)
	}
	h.agree()
}

func TestService_Run_retriesWithdrawals(t *testing.T) {
	for _, again := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := open(t, func(c *access.Config) { c.Clock = processClock{} })
			account := h.add(porter)
			h.put(site.Grant{Account: account.ID, Station: 7})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- h.Run(ctx) }()
			h.store.fail("RemoveGrant", errDisk)
			h.is(h.RemoveGrant(ctx, admin(), site.GrantKey{Account: account.ID, Station: 7}), fault.Unavailable)
			time.Sleep(3*access.FlushEvery + time.Second)
			h.store.fail("RemoveGrant", nil)
			if again {
				h.put(site.Grant{Account: account.ID, Station: 7}) // a later grant stands
			}
			time.Sleep(access.FlushEvery)
			synctest.Wait()
			if got := h.store.granted() == 1; got != again || h.Permits(account.ID, 7) != again {
				t.Errorf("granted anew: %v, stored: %v, permits: %v", again, got, h.Permits(account.ID, 7))
			}
			cancel()
			h.ok(<-done)
			h.agree()
		})
	}
}

// A withdrawal that waits to be tried again does not take a grant that was given
// while it waited.
func TestService_Run_retryOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, func(c *access.Config) { c.Clock = processClock{} })
		account := h.add(porter)
		h.put(site.Grant{Account: account.ID, Station: 7})
		h.store.fail("RemoveGrant", errDisk)
		h.is(h.RemoveGrant(t.Context(), admin(), site.GrantKey{Account: account.ID, Station: 7}), fault.Unavailable)
		h.store.fail("RemoveGrant", nil)
		gate := make(chan struct{})
		h.store.entered = func(method string) {
			if method == "RemoveGrant" {
				<-gate // who grants anew stores it, and holds the grant's turn meanwhile
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { h.ok(h.Run(ctx)) })
		all.Go(func() { h.put(site.Grant{Account: account.ID, Station: 7}) })
		synctest.Wait()
		cancel() // Run tries the withdrawal once more: behind the new grant
		synctest.Wait()
		close(gate)
		all.Wait()
		if !h.Permits(account.ID, 7) || h.store.granted() != 1 {
			t.Error("the new grant was withdrawn")
		}
		h.told(site.KindGranted, site.KindUngranted, site.KindGranted)
		h.agree()
	})
}

// told requires that the records of grants are of these kinds, in this order.
func (h *house) told(want ...site.Kind) {
	h.t.Helper()
	var got []site.Kind
	for _, r := range h.store.of(site.KindGranted, site.KindUngranted) {
		got = append(got, r.Kind)
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("the records are %v, want %v", got, want)
	}
}

// A grant that is withdrawn while it is being changed holds no longer, in memory, in
// the store and in the journal; also where the change still waits for its turn.
func TestService_RemoveGrant_whilePutting(t *testing.T) {
	for puts := 1; puts <= 2; puts++ {
		for _, failing := range []error{nil, errDisk} {
			synctest.Test(t, func(t *testing.T) {
				h := open(t)
				account := h.add(porter)
				h.put(site.Grant{Account: account.ID, Station: 7})
				gate := make(chan struct{})
				h.store.entered = func(method string) {
					if method == "PutGrant" {
						<-gate
					}
				}
				h.store.fail("RemoveGrant", failing)
				var all sync.WaitGroup
				for i := range puts {
					until := h.clock.Now().Add(time.Duration(i+1) * time.Hour)
					all.Go(func() {
						_, err := h.PutGrant(t.Context(), admin(), site.Grant{Account: account.ID, Station: 7, Terms: site.Terms{Until: site.At(until)}})
						if err != nil && (failing == nil || i == 0) { // the last may share a transaction with the withdrawal
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				all.Go(func() {
					if err := h.RemoveGrant(t.Context(), admin(), site.GrantKey{Account: account.ID, Station: 7}); fault.Is(err, fault.Unavailable) != (failing != nil) {
						t.Errorf("withdrawing gave %v", err)
					}
				})
				synctest.Wait()
				if h.Permits(account.ID, 7) {
					t.Error("the withdrawal does not take effect at once")
				}
				close(gate)
				all.Wait()
				if h.Permits(account.ID, 7) || len(h.Grants()) != 0 {
					t.Error("the withdrawn grant holds")
				}
				h.store.fail("RemoveGrant", nil)
				h.flush()
				want := slices.Repeat([]site.Kind{site.KindGranted}, 1+puts)
				h.told(append(want, site.KindUngranted)...)
				h.agree()
			})
		}
	}
}

// Every withdrawal that storage did not take is stored later.
func TestService_Run_retriesAllWithdrawals(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	for station := range site.StationID(3) {
		h.put(site.Grant{Account: account.ID, Station: station + 1})
	}
	h.store.fail("RemoveGrant", errDisk)
	for station := range site.StationID(3) {
		h.is(h.RemoveGrant(t.Context(), admin(), site.GrantKey{Account: account.ID, Station: station + 1}), fault.Unavailable)
	}
	h.store.fail("RemoveGrant", nil)
	h.flush()
	if n := h.store.granted(); n != 0 {
		t.Errorf("%d grants are still stored", n)
	}
}

// A withdrawal that storage did not take is recorded before the grant that follows it;
// while it cannot be, the grant cannot either.
func TestService_PutGrant_afterUnstoredWithdrawal(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	grant := site.Grant{Account: account.ID, Station: 7}
	h.put(grant)
	h.store.fail("RemoveGrant", errDisk)
	h.is(h.RemoveGrant(t.Context(), admin(), site.GrantKey{Account: account.ID, Station: 7}), fault.Unavailable)
	_, err := h.PutGrant(t.Context(), admin(), grant)
	h.is(err, fault.Unavailable)
	if h.Permits(account.ID, 7) {
		t.Error("a grant that was not stored holds")
	}
	h.store.fail("RemoveGrant", nil)
	h.put(grant)
	if !h.Permits(account.ID, 7) {
		t.Error("the new grant does not hold")
	}
	h.told(site.KindGranted, site.KindUngranted, site.KindGranted)
	h.agree()
}

// A withdrawal that was drafted for a change of the whole site takes effect once stored.
func TestService_DraftWithdrawal(t *testing.T) {
	h := open(t)
	grant := site.Grant{Account: h.add(porter).ID, Station: 7}
	h.put(grant)
	h.ok(h.changes.Make(t.Context(), site.Actor{}, func() ([]site.Amendment, error) {
		return []site.Amendment{h.DraftWithdrawal(admin(), grant.Key())}, nil
	}))
	if h.Permits(grant.Account, 7) || len(h.Grants()) != 0 {
		t.Error("the withdrawn grant holds")
	}
	h.agree()
}

// Every withdrawal is stored before a later change.
func TestService_RemoveAccount_unstoredWithdrawals(t *testing.T) {
	h := open(t)
	accounts := []site.Account{h.add(porter), h.add(guest)}
	for _, a := range accounts {
		h.put(site.Grant{Account: a.ID, Station: 7})
	}
	h.store.fail("RemoveGrant", errDisk)
	for _, a := range accounts {
		h.is(h.RemoveGrant(t.Context(), admin(), site.GrantKey{Account: a.ID, Station: 7}), fault.Unavailable)
	}
	h.store.fail("RemoveGrant", nil)
	h.ok(h.RemoveAccount(t.Context(), admin(), porter))
	if n := h.store.granted(); n != 0 {
		t.Errorf("%d grants are still stored", n)
	}
	h.told(site.KindGranted, site.KindGranted, site.KindUngranted, site.KindUngranted)
}

// The removal of a station ends its grants, also those of an account that may use
// others.
func TestService_removedStation(t *testing.T) {
	h := open(t)
	one, other := h.add(porter), h.add(guest)
	for _, g := range []site.Grant{{Account: one.ID, Station: 7}, {Account: one.ID, Station: 8}, {Account: other.ID, Station: 7}} {
		h.put(g)
	}
	h.ok(h.changes.Make(t.Context(), site.Actor{}, func() ([]site.Amendment, error) {
		return []site.Amendment{{RemoveStation: 7}}, nil
	}))
	if h.Permits(one.ID, 7) || h.Permits(other.ID, 7) || !h.Permits(one.ID, 8) {
		t.Errorf("granted: %v, %v", h.Granted(one.ID), h.Granted(other.ID))
	}
	h.agree()
}
