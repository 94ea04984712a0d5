package access_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// An integration token is taken where an access token is, and may what its scope says; it
// ends no session and administers nothing.
func TestService_integrationToken(t *testing.T) {
	h := open(t)
	account := h.add(porter)
	added, text, err := h.Tokens().Add(t.Context(), admin(), "Lobby", site.Scope{Read: true, Unlock: []site.StationID{7}}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		actor, err := h.Authenticate(text)
		if err != nil || actor.Account != added.ID || actor.Admin || actor.Origin != site.Local || actor.Session != "" || !h.Lives(actor) {
			t.Errorf("%s: %+v, %v", when, actor, err)
		}
		if !h.Permits(added.ID, 7) || h.Permits(added.ID, 8) || !h.MayRead(added.ID, 7) || !h.MayRead(added.ID, 8) || h.MayRead(account.ID, 7) {
			t.Errorf("%s: it may something else than its scope", when)
		}
	}
	check("at first")
	h.restart()
	check("after a restart")
	actor, _ := h.Authenticate(text)
	_, asAccess := h.AuthenticateToRevoke(text)
	_, asRefresh := h.RefreshToRevoke(text)
	_, renewed := h.Refresh(t.Context(), text)
	for _, err := range []error{asAccess, asRefresh, renewed, h.Revoke(t.Context(), actor, true)} {
		if !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("it is taken for a session: %v", err)
		}
	}
	if err := h.Tokens().Remove(t.Context(), admin(), "Lobby"); err != nil || h.Permits(added.ID, 7) || h.MayRead(added.ID, 7) {
		t.Errorf("after its removal it may something: %v", err)
	}
	if _, err := h.Authenticate(text); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("after its removal: %v", err)
	}
}

// However often a token is used, that is stored once an hour, with what is stored anyway,
// and once more at the end.
func TestService_tokenUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		_, text, err := h.Tokens().Add(t.Context(), admin(), "Lobby", site.Scope{Read: true}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		stop := h.running()
		for range 150 {
			h.clock.advance(time.Minute)
			if _, err := h.Authenticate(text); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if n := h.store.called("DropExpired"); n != 2 {
			t.Errorf("stored %d times in 150 minutes", n)
		}
		stop()
		if n := h.store.called("DropExpired"); n != 3 {
			t.Errorf("stored %d times at the end", n)
		}
		h.restart()
		if used := h.Tokens().Tokens()[0].Used; !used.Equal(h.clock.Now().Truncate(time.Millisecond)) {
			t.Errorf("used %s", used)
		}
	})
}

// running runs the service until the function that it returns is called.
func (h *house) running() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- h.Run(ctx) }()
	return func() { cancel(); h.ok(<-done) }
}

// A removal that the storage did not take is stored later.
func TestService_tokenRemovalRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		_, text, err := h.Tokens().Add(t.Context(), admin(), "Lobby", site.Scope{Read: true}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		defer h.running()()
		h.store.fail("RemoveToken", errDisk)
		if err := h.Tokens().Remove(t.Context(), admin(), "Lobby"); !errors.Is(err, errDisk) {
			t.Errorf("the error is %v", err)
		}
		h.store.fail("RemoveToken", nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		h.restart()
		if _, err := h.Authenticate(text); !fault.Is(err, fault.Unauthenticated) || len(h.store.of(site.KindTokenRemoved)) != 1 {
			t.Errorf("after a restart: %v", err)
		}
	})
}
