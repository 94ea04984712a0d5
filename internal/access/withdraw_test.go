package access_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// withdrawal is a change after which the account porter may not use station 7, who may use it by a
// grant. It is Saturday, 2026-11-21, which is a holiday where the list has today.
type withdrawal struct {
	grant site.Grant // for porter or people, for 7 or doors
	today bool
	make  func(ctx context.Context, h *house, g site.Grant) error
}

const holiday = "today"

// today is the holiday of that name, on the day of the tests.
func today(t failer) []site.Holiday {
	dates, err := site.ParseDates("2026-11-21")
	if err != nil {
		t.Fatalf("%v", err)
	}
	return []site.Holiday{{Name: holiday, Dates: []site.Dates{dates}}}
}

func withdrawals(t *testing.T) map[string]withdrawal {
	never, always := hours(t, "none"), hours(t, "00:00-24:00")
	remove := func(ctx context.Context, h *house, g site.Grant) error { return h.RemoveGrant(ctx, admin(), g.Key()) }
	narrow := func(narrow func(*site.Grant)) func(context.Context, *house, site.Grant) error {
		return func(ctx context.Context, h *house, g site.Grant) error {
			narrow(&g)
			_, err := h.PutGrant(ctx, admin(), g)
			return err
		}
	}
	leave := func(name site.GroupName) func(context.Context, *house, site.Grant) error {
		return func(ctx context.Context, h *house, g site.Grant) error {
			group, _ := h.Group(name)
			return h.ChangeGroup(ctx, admin(), name, "", nil, group.Members)
		}
	}
	end := func(name site.GroupName) func(context.Context, *house, site.Grant) error {
		return func(ctx context.Context, h *house, g site.Grant) error { return h.RemoveGroup(ctx, admin(), name) }
	}
	until := narrow(func(g *site.Grant) { g.Until = site.At(newClock().Now()) })
	return map[string]withdrawal{
		"grant removed":            {site.Grant{Station: 7}, false, remove},
		"grant of groups removed":  {site.Grant{AccountGroup: "people", StationGroup: "doors"}, false, remove},
		"hours":                    {site.Grant{Station: 7}, false, narrow(func(g *site.Grant) { g.Hours = never })},
		"hours of a group":         {site.Grant{AccountGroup: "people", StationGroup: "doors"}, false, narrow(func(g *site.Grant) { g.Hours = never })},
		"validity":                 {site.Grant{Station: 7}, false, until},
		"hours on holidays":        {site.Grant{Station: 7}, true, narrow(func(g *site.Grant) { g.Holidays = never })},
		"account left the group":   {site.Grant{AccountGroup: "people", Station: 7}, false, leave("people")},
		"station left the group":   {site.Grant{StationGroup: "doors"}, false, leave("doors")},
		"group of people removed":  {site.Grant{AccountGroup: "people", Station: 7}, false, end("people")},
		"group of doors removed":   {site.Grant{AccountGroup: "people", StationGroup: "doors"}, false, end("doors")},
		"holiday added":            {site.Grant{Station: 7, Terms: site.Terms{Holidays: never}}, false, func(ctx context.Context, h *house, _ site.Grant) error { return add(ctx, h) }},
		"holiday with hours ended": {site.Grant{Station: 7, Terms: site.Terms{Hours: never, Holidays: always}}, true, func(ctx context.Context, h *house, _ site.Grant) error { return h.RemoveHoliday(ctx, admin(), holiday) }},
	}
}

func add(ctx context.Context, h *house) error {
	_, err := h.AddHolidays(ctx, admin(), today(h.t))
	return err
}

// open returns a house in which porter may use station 7, and the grant by which.
func (c withdrawal) open(t failer) (*house, site.Grant) {
	h := open(t)
	account := h.add(porter)
	h.ok(h.ChangeGroup(context.Background(), admin(), "people", site.OfAccounts, []site.Member{{Account: account.ID}}, nil))
	h.ok(h.ChangeGroup(context.Background(), admin(), "doors", site.OfStations, []site.Member{{Station: 7}}, nil))
	if c.today {
		h.ok(add(context.Background(), h))
	}
	g := c.grant
	if g.AccountGroup == "" {
		g.Account = account.ID
	}
	h.put(g)
	h.may(true)
	return h, g
}

// may requires that porter may use station 7, or not.
func (h *house) may(want bool) {
	h.t.Helper()
	account, _ := h.AccountByEmail(porter) // none once it is removed
	if got := h.Permits(account.ID, 7); got != want || slices.Contains(h.Granted(account.ID), 7) != want {
		h.t.Errorf("permitted: %v, granted: %v, want %v", got, h.Granted(account.ID), want)
	}
}

// What is revoked is gone at once, also while the storage fails or hangs, and is stored,
// with its one record, as soon as it can be.
func TestService_revokesAtOnce(t *testing.T) {
	for name, c := range withdrawals(t) {
		t.Run(name+" while the storage fails", func(t *testing.T) {
			h, g := c.open(t)
			records := len(h.store.records)
			h.store.fail("", errDisk)
			for range 2 {
				h.is(c.make(t.Context(), h, g), fault.Unavailable)
				h.may(false)
			}
			_, err := h.AddAccount(t.Context(), admin(), guest, right, false)
			h.is(err, fault.Unavailable)
			h.may(false)
			h.store.fail("", nil)
			h.flush()
			h.may(false)
			if n := len(h.store.records); n != records+1 {
				t.Errorf("%d records", n-records)
			}
			h.agree()
			h.may(false)
		})
		t.Run(name+" while the storage hangs", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, g := c.open(t)
				inside, release := h.hold()
				done := make(chan error, 2)
				go func() { done <- h.SetAdmin(context.Background(), admin(), porter, true) }()
				synctest.Wait()
				go func() { done <- c.make(context.Background(), h, g) }()
				synctest.Wait()
				if n := inside.Load(); n != 1 {
					t.Errorf("%d changes are stored at once", n)
				}
				h.may(false)
				release()
				h.ok(<-done)
				h.ok(<-done)
				h.may(false)
				h.agree()
			})
		})
	}
}

// An account and a role that are revoked are gone at once, also while the storage fails
// or hangs. A password that is set meanwhile stays.
func TestService_revokesAccountsAtOnce(t *testing.T) {
	remove := func(ctx context.Context, h *house) error { return h.RemoveAccount(ctx, admin(), porter) }
	demote := func(ctx context.Context, h *house) error { return h.SetAdmin(ctx, admin(), porter, false) }
	check := func(h *house, before access.Tokens, removed bool) {
		h.t.Helper()
		if removed {
			h.dead(before)
			h.refused(h.try(porter, right, address(1)), "Invalid credentials")
			h.may(false)
			return
		}
		actor := h.actor(before.Access)
		web := actor
		web.Origin = site.Admin
		if account, err := h.AccountByEmail(porter); err != nil || account.Admin || actor.Admin || h.Lives(web) {
			h.t.Errorf("still an administrator: %+v %+v, %v", account, actor, err)
		}
	}
	ready := func(t failer) (*house, access.Tokens) {
		h, _ := withdrawal{grant: site.Grant{Station: 7}}.open(t)
		h.ok(h.SetAdmin(context.Background(), admin(), porter, true))
		tokens := h.login(porter)
		return h, tokens
	}
	for name, end := range map[string]func(context.Context, *house) error{"removed": remove, "demoted": demote} {
		t.Run(name+" while the storage fails", func(t *testing.T) {
			h, tokens := ready(t)
			of := []site.Kind{site.KindAccountRemoved, site.KindAccountChanged}
			records := len(h.store.of(of...))
			h.store.fail("", errDisk)
			h.is(end(t.Context(), h), fault.Unavailable)
			check(h, tokens, name == "removed")
			again := map[string]fault.Kind{"removed": fault.NotFound, "demoted": fault.Unavailable}[name]
			h.is(end(t.Context(), h), again)
			check(h, tokens, name == "removed")
			h.is(h.SetAdmin(t.Context(), admin(), porter, true), again)
			check(h, tokens, name == "removed")
			h.store.fail("", nil)
			h.flush()
			if n := len(h.store.of(of...)); n != records+1 {
				t.Errorf("%d records", n-records)
			}
			h.agree()
			if _, err := h.AccountByEmail(porter); (err != nil) != (name == "removed") {
				t.Errorf("the account: %v", err)
			}
		})
		t.Run(name+" while the storage hangs", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, tokens := ready(t)
				_, release := h.hold()
				done := make(chan error, 2)
				go func() { done <- h.SetPassword(context.Background(), admin(), porter, wrong) }()
				synctest.Wait()
				go func() { done <- end(context.Background(), h) }()
				synctest.Wait()
				if account, _ := h.AccountByEmail(porter); name == "demoted" && account.Admin {
					t.Error("still an administrator")
				}
				if _, err := h.Authenticate(tokens.Access); name == "removed" && err == nil {
					t.Error("the session lives")
				}
				release()
				h.ok(<-done)
				h.ok(<-done)
				h.agree()
				if name == "demoted" {
					h.ok(h.try(porter, wrong, address(1)))
				}
			})
		})
	}
}

// An account stays removed whose removal was stored after all, when that had failed already.
func TestService_RemoveAccount_stored(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	h.store.fail("", errDisk)
	h.is(h.RemoveAccount(t.Context(), admin(), porter), fault.Unavailable)
	h.ok(h.store.removeAccount(account.ID))
	h.store.fail("", nil)
	h.flush()
	h.refused(h.try(porter, right, address(1)), "Invalid credentials")
	h.agree()
}

// A role that ends while it is being stored ends after that.
func TestService_SetAdmin_overtaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		_, release := h.hold()
		done := make(chan error, 2)
		for _, admins := range []bool{true, false} {
			go func() { done <- h.SetAdmin(context.Background(), admin(), porter, admins) }()
			synctest.Wait()
		}
		release()
		h.ok(<-done)
		h.ok(<-done)
		if account, err := h.AccountByEmail(porter); err != nil || account.Admin {
			t.Errorf("still an administrator: %v", err)
		}
		h.agree()
	})
}

// A change that is not stored permits nothing.
func TestService_PutGrant_unstored(t *testing.T) {
	c := withdrawal{grant: site.Grant{Station: 7}}
	h, g := c.open(t)
	g.Hours = hours(t, "none")
	h.put(g)
	h.may(false)
	g.Hours = site.Schedule{}
	h.store.fail("", errDisk)
	_, err := h.PutGrant(t.Context(), admin(), g)
	h.is(err, fault.Unavailable)
	h.may(false)
	h.store.fail("", nil)
	_, err = h.PutGrant(t.Context(), admin(), g)
	h.ok(err)
	h.may(true)
	h.agree()
}

// A change of a group in which one member cannot be right removes nobody. What the store
// refuses of it keeps nobody in the group.
func TestService_ChangeGroup_refused(t *testing.T) {
	h, _ := withdrawal{grant: site.Grant{AccountGroup: "people", Station: 7}}.open(t)
	group, _ := h.Group("people")
	ctx, added := t.Context(), []site.Member{{Account: h.add(guest).ID}}
	h.is(h.ChangeGroup(ctx, admin(), "people", "", []site.Member{{Account: "x"}}, group.Members), fault.NotFound)
	h.may(true)
	h.store.fail("AddMember", fault.New(fault.NotFound, "gone")) // the account that is added, meanwhile
	h.is(h.ChangeGroup(ctx, admin(), "people", "", added, group.Members), fault.NotFound)
	h.may(false)
	h.store.fail("AddMember", nil)
	h.agree()
	h.may(false)
}

// Whatever the store refuses of what is pending, all else of it is stored.
func TestService_Settle_refused(t *testing.T) {
	h, g := withdrawal{grant: site.Grant{Station: 7}}.open(t)
	h.add(guest)
	tokens := h.login(guest)
	group, _ := h.Group("people")
	h.store.fail("", errDisk)
	g.Hours = hours(t, "none")
	_, err := h.PutGrant(t.Context(), admin(), g)
	h.is(err, fault.Unavailable)
	h.is(h.ChangeGroup(t.Context(), admin(), "people", "", nil, group.Members), fault.Unavailable)
	h.is(h.RevokeByRefresh(t.Context(), tokens.Refresh), fault.Unavailable)
	h.store.fail("", nil)
	h.store.fail("NarrowGrant", fault.New(fault.NotFound, "gone"))
	h.flush()
	h.store.fail("NarrowGrant", nil)
	h.agree()
	h.dead(tokens)
	if group, _ = h.Group("people"); len(group.Members) != 0 {
		t.Errorf("%+v", group)
	}
}

// A change that waits for storage does not outlive what it changes, and keeps no later
// change from being stored.
func TestService_revoke_refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, g := withdrawal{grant: site.Grant{Station: 7}}.open(t)
		_, release := h.hold()
		removed, narrowed := make(chan error), make(chan error)
		go func() { removed <- h.RemoveAccount(context.Background(), admin(), porter) }()
		synctest.Wait()
		g.Hours = hours(t, "none")
		go func() {
			_, err := h.PutGrant(context.Background(), admin(), g)
			narrowed <- err
		}()
		synctest.Wait()
		release()
		h.ok(<-removed)
		h.is(<-narrowed, fault.NotFound)
		h.add(guest)
		h.agree()
	})
}
