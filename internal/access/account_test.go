package access_test

import (
	"context"
	"testing"
	"testing/synctest"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

func TestService_AddAccount(t *testing.T) {
	h := open(t)
	account, err := h.AddAccount(t.Context(), admin(), " Porter@Example.test ", right, true)
	h.ok(err)
	if account.Email != porter || !account.Admin || account.Password != "" || !account.Created.Equal(h.clock.Now()) || len(account.ID) != 36 {
		t.Errorf("the account is %+v", account)
	}
	for _, email := range []string{porter, "PORTER@EXAMPLE.TEST"} {
		_, err = h.AddAccount(t.Context(), admin(), email, right, false)
		h.is(err, fault.Conflict)
	}
	for _, email := range []string{"", "porter", "Porter <porter2@example.test>", "porter2@example.test\nx"} {
		_, err = h.AddAccount(t.Context(), admin(), email, right, false)
		h.is(err, fault.Invalid)
	}
	_, err = h.AddAccount(t.Context(), admin(), guest, "password", false)
	h.is(err, fault.Invalid)
	if n := len(h.Accounts()); n != 1 {
		t.Errorf("%d accounts", n)
	}
	want := site.Facts{Origin: site.Admin, By: admin().Name, Account: account.ID, Email: porter, Detail: "an administrator"}
	if got := h.store.of(site.KindAccountAdded); len(got) != 1 || got[0].Facts != want {
		t.Errorf("the records are %+v", got)
	}
	h.agree()
}

func TestService_AddAccount_storageFailing(t *testing.T) {
	h := open(t)
	h.store.fail("AddAccount", errDisk)
	_, err := h.AddAccount(t.Context(), admin(), porter, right, false)
	h.is(err, fault.Unavailable)
	h.store.fail("AddAccount", fault.New(fault.Conflict, "taken"))
	_, err = h.AddAccount(t.Context(), admin(), porter, right, false)
	h.is(err, fault.Conflict)
	h.store.fail("AddAccount", nil)
	h.refused(h.try(porter, right, address(1)), "Invalid credentials")
	h.add(porter)
	h.login(porter)
}

func TestService_AddAccount_parallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		parallel(10, func(int) {
			if _, err := h.AddAccount(context.Background(), admin(), porter, right, false); err != nil {
				h.is(err, fault.Conflict)
			}
		})
		if len(h.Accounts()) != 1 || len(h.store.of(site.KindAccountAdded)) != 1 {
			t.Errorf("%d accounts", len(h.Accounts()))
		}
		h.agree()
	})
}

func TestService_AddAccount_by(t *testing.T) {
	h := open(t)
	by := site.Actor{Origin: site.Admin, Account: "a", Email: "ada@example.test", Admin: true}
	account, err := h.AddAccount(t.Context(), by, porter, right, false)
	h.ok(err)
	want := site.Facts{Origin: site.Admin, By: "ada@example.test", Account: account.ID, Email: porter, Detail: "not an administrator"}
	if got := h.store.of(site.KindAccountAdded)[0].Facts; got != want {
		t.Errorf("the record is %+v, want %+v", got, want)
	}
}

func TestService_Accounts(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	h.add(guest)
	if got := h.Accounts(); len(got) != 2 || got[0].Email != guest || got[1] != account || got[0].Password != "" {
		t.Errorf("the accounts are %+v", got)
	}
	if got, err := h.AccountByEmail(" PORTER@example.test"); err != nil || got != account {
		t.Errorf("%+v, %v", got, err)
	}
	if got, ok := h.AccountByID(account.ID); !ok || got != account {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, email := range []string{"", "nobody", "nobody@example.test"} {
		_, err := h.AccountByEmail(email)
		h.is(err, fault.NotFound)
	}
	if _, ok := h.AccountByID("nobody"); ok {
		t.Error("there is an account without being one")
	}
}

func TestService_RemoveAccount(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	h.add(guest)
	tokens, other := h.login(porter), h.login(guest)
	_, err := h.PutGrant(t.Context(), admin(), site.Grant{Account: account.ID, Station: 7})
	h.ok(err)
	h.is(h.RemoveAccount(t.Context(), admin(), "nobody@example.test"), fault.NotFound)
	h.ok(h.RemoveAccount(t.Context(), admin(), porter))
	h.dead(tokens)
	h.alive(other)
	h.refused(h.try(porter, right, address(1)), "Invalid credentials")
	if h.Permits(account.ID, 7) || len(h.Granted(account.ID)) != 0 || len(h.Grants()) != 0 {
		t.Error("its grants still hold")
	}
	h.is(h.RemoveAccount(t.Context(), admin(), porter), fault.NotFound)
	want := site.Facts{
		Origin: site.Admin, By: admin().Name, Account: account.ID, Email: porter,
		Count: 1, Detail: "with its sessions and grants",
	}
	if got := h.store.of(site.KindAccountRemoved); len(got) != 1 || got[0].Facts != want {
		t.Errorf("the records are %+v", got)
	}
	h.agree()

	h.add(porter) // another account with the same address
	h.dead(tokens)
	if h.Permits(account.ID, 7) {
		t.Error("the new account has the grants of the old one")
	}
	h.alive(h.login(porter))
}

// An account whose removal cannot be stored now is gone all the same.
func TestService_RemoveAccount_storageFailing(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	h.store.fail("", errDisk)
	h.is(h.RemoveAccount(t.Context(), admin(), porter), fault.Unavailable)
	h.dead(tokens)
	if len(h.Accounts()) != 0 {
		t.Error("the account is listed")
	}
	h.is(h.RemoveAccount(t.Context(), admin(), porter), fault.NotFound)
	h.is(h.addOne(t.Context(), porter), fault.Unavailable)
	h.store.fail("", nil)
	h.ok(h.addOne(t.Context(), porter))
	h.agree()
	h.dead(tokens)
}

func TestService_SetPassword(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	tokens := h.login(porter)
	const next = site.Secret("quite another one")
	h.is(h.SetPassword(t.Context(), admin(), "nobody@example.test", next), fault.NotFound)
	h.is(h.SetPassword(t.Context(), admin(), porter, porter), fault.Invalid)
	h.store.fail("UpdateAccount", errDisk)
	h.is(h.SetPassword(t.Context(), admin(), porter, next), fault.Unavailable)
	h.login(porter)
	h.store.fail("UpdateAccount", nil)
	h.ok(h.SetPassword(t.Context(), admin(), porter, next))
	h.refused(h.try(porter, right, address(1)), "Invalid credentials")
	h.ok(h.try(porter, next, address(1)))
	h.alive(tokens) // specification, "Authentication", rule 6
	want := site.Facts{Origin: site.Admin, By: admin().Name, Account: account.ID, Email: porter, Detail: "password set"}
	if got := h.store.of(site.KindAccountChanged); len(got) != 1 || got[0].Facts != want {
		t.Errorf("the records are %+v", got)
	}
	h.agree()
	h.ok(h.try(porter, next, address(1)))
}

func TestService_PasswordMatches(t *testing.T) {
	h := open(t)
	h.add(porter)
	for range 2 * access.AccountBurst { // not throttled
		for password, want := range map[site.Secret]bool{right: true, wrong: false, "": false} {
			got, err := h.PasswordMatches(t.Context(), porter, password)
			if err != nil || got != want {
				t.Fatalf("%v, %v, want %v", got, err, want)
			}
		}
	}
	_, err := h.PasswordMatches(t.Context(), guest, right)
	h.is(err, fault.NotFound)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = h.PasswordMatches(ctx, porter, right)
	h.is(err, fault.Unavailable)
	h.ok(h.try(porter, right, address(1)))
}

// The password of a session is guessed no faster than at a login, and guessing keeps nobody
// out.
func TestService_ConfirmPassword(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	by := h.actor(tokens.Access)
	confirm := func(password site.Secret) error {
		return h.ConfirmPassword(t.Context(), by, password, access.Client{Remote: address(2)})
	}
	h.ok(confirm(right))
	for range access.AccountBurst {
		h.is(confirm(wrong), fault.Forbidden)
	}
	h.is(confirm(wrong), fault.Throttled)
	h.is(confirm(right), fault.Throttled)
	if got := h.store.of(site.KindLoginFailed); len(got) == 0 || got[0].Email != porter || got[0].Remote != address(2).String() {
		t.Errorf("the records are %+v", got)
	}
	h.alive(tokens)
	h.ok(h.try(porter, right, address(1)))
}

func TestService_SetAdmin(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	h.is(h.SetAdmin(t.Context(), admin(), guest, true), fault.NotFound)
	h.ok(h.SetAdmin(t.Context(), admin(), porter, true))
	if !h.actor(tokens.Access).Admin {
		t.Error("the session does not feel it")
	}
	h.ok(h.SetAdmin(t.Context(), admin(), porter, true))
	h.store.fail("UpdateAccount", errDisk)
	h.is(h.SetAdmin(t.Context(), admin(), porter, false), fault.Unavailable)
	h.store.fail("UpdateAccount", nil)
	h.ok(h.SetAdmin(t.Context(), admin(), porter, false))
	if h.actor(tokens.Access).Admin {
		t.Error("the session of the former administrator does not feel it")
	}
	got := h.store.of(site.KindAccountChanged)
	if len(got) != 2 || got[0].Detail != "an administrator" || got[1].Detail != "not an administrator" {
		t.Errorf("the records are %+v", got)
	}
	h.agree()
}
