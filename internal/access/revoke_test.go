package access_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// revocations are the ways to end the session of tokens by its own hand.
func revocations() map[string]func(h *house, tokens access.Tokens) error {
	ctx := context.Background()
	byToken := func(end func(h *house, actor site.Actor) error) func(*house, access.Tokens) error {
		return func(h *house, tokens access.Tokens) error {
			actor, err := h.AuthenticateToRevoke(tokens.Access)
			if err != nil {
				return err
			}
			return end(h, actor)
		}
	}
	return map[string]func(*house, access.Tokens) error{
		"by refresh":     func(h *house, t access.Tokens) error { return h.RevokeByRefresh(ctx, t.Refresh) },
		"all by refresh": func(h *house, t access.Tokens) error { return h.RevokeAllByRefresh(ctx, t.Refresh) },
		"by session":     byToken(func(h *house, a site.Actor) error { return h.Revoke(ctx, a, false) }),
		"all by actor":   byToken(func(h *house, a site.Actor) error { return h.Revoke(ctx, a, true) }),
	}
}

func TestService_Revoke(t *testing.T) {
	for name, revoke := range revocations() {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			account := h.add(porter)
			h.add(guest)
			mine, sibling, other := h.login(porter), h.login(porter), h.login(guest)
			session := h.actor(mine.Access).Session
			h.ok(revoke(h, mine))
			h.dead(mine)
			h.alive(other)
			all := name == "all by refresh" || name == "all by actor"
			if all {
				h.dead(sibling)
			} else {
				h.alive(sibling)
			}
			h.refused(revoke(h, mine), "Token is invalid") // it is no session any more
			records := h.store.of(site.KindSessionRevoked)
			if len(records) != 1 || records[0].Account != account.ID || records[0].Email != porter ||
				records[0].Session != session || (records[0].Count == 2) != all {
				t.Errorf("the records are %+v", records)
			}
			h.agree()
			h.dead(mine)
			h.alive(other)
		})
	}
}

// An end that cannot be stored takes effect all the same, and is not forgotten: a retry
// is no 401 but tries the store again.
func TestService_Revoke_storageFailing(t *testing.T) {
	for name, revoke := range revocations() {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			h.add(porter)
			tokens := h.login(porter)
			h.store.fail("EndSessions", errDisk)
			for range 3 {
				h.is(revoke(h, tokens), fault.Unavailable)
				h.dead(tokens)
			}
			if h.SessionCount() != 0 || len(h.store.kept()) != 1 || h.store.called("EndSessions") != 3 {
				t.Errorf("%d sessions live, %d are stored, %d tries",
					h.SessionCount(), len(h.store.kept()), h.store.called("EndSessions"))
			}
			h.store.fail("EndSessions", nil)
			h.ok(revoke(h, tokens))
			h.dead(tokens)
			if len(h.store.kept()) != 0 {
				t.Error("the session is still stored")
			}
			h.refused(revoke(h, tokens), "Token is invalid")
			h.agree()
		})
	}
}

func TestService_Run_retriesEnds(t *testing.T) {
	for _, last := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := open(t, func(c *access.Config) { c.Clock = processClock{} })
			account := h.add(porter)
			tokens, sibling := h.login(porter), h.login(porter)
			session := h.actor(tokens.Access).Session
			h.store.fail("", errDisk)
			h.is(h.RevokeByRefresh(context.Background(), tokens.Refresh), fault.Unavailable)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- h.Run(ctx) }()
			time.Sleep(3*access.FlushEvery + time.Second)
			h.dead(tokens)
			h.store.fail("", nil)
			if !last {
				time.Sleep(access.FlushEvery)
				synctest.Wait()
				if len(h.store.kept()) != 1 {
					t.Error("the end of the session is not stored")
				}
			}
			cancel()
			h.ok(<-done)
			records := h.store.of(site.KindSessionRevoked)
			if len(records) != 1 || records[0].Account != account.ID || records[0].Session != session {
				t.Errorf("the records are %+v", records)
			}
			h.alive(sibling)
			h.agree()
			h.alive(sibling)
			h.dead(tokens)
		})
	}
}

// A client that leaves does not stop the end of its session from being stored.
func TestService_Revoke_clientGone(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	ctx, cancel := context.WithCancel(t.Context())
	h.store.entered = func(string) { cancel() }
	h.ok(h.RevokeByRefresh(ctx, tokens.Refresh))
	if len(h.store.kept()) != 0 {
		t.Error("the session is still stored")
	}
}

// While the store hangs, a session is dead for everyone from the moment on at
// which its end was asked for; the one who asks is told in bounded time.
func TestService_Revoke_storeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		tokens, sibling := h.login(porter), h.login(porter)
		gate := make(chan struct{})
		h.store.entered = func(string) { <-gate }
		first := make(chan error, 1)
		go func() { first <- h.RevokeByRefresh(context.Background(), tokens.Refresh) }()
		synctest.Wait()
		h.dead(tokens)
		h.alive(sibling)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h.is(h.RevokeByRefresh(ctx, sibling.Refresh), fault.Unavailable)
		h.dead(sibling)
		close(gate)
		h.ok(<-first)
	})
}

// Several ends of one session at the same time are one end in store and journal.
func TestService_Revoke_parallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		tokens := h.login(porter)
		gate := make(chan struct{})
		h.store.entered = func(string) { <-gate }
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { h.ok(h.RevokeByRefresh(context.Background(), tokens.Refresh)) })
			all.Go(func() { h.ok(h.RevokeAllByRefresh(context.Background(), tokens.Refresh)) })
		}
		synctest.Wait()
		close(gate)
		all.Wait()
		if n, records := h.store.called("EndSessions"), h.store.of(site.KindSessionRevoked); n != 1 || len(records) != 1 {
			t.Errorf("%d ends reached the store, with %d records", n, len(records))
		}
		h.refused(h.RevokeByRefresh(context.Background(), tokens.Refresh), "Token is invalid")
	})
}

// Lives reports the end of a session at once; an actor without one always lives.
func TestService_Lives(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	actor := h.actor(tokens.Access)
	if !h.Lives(actor) || !h.Lives(admin()) {
		t.Error("a live session, or no session, does not live")
	}
	h.ok(h.RevokeByRefresh(context.Background(), tokens.Refresh))
	if h.Lives(actor) {
		t.Error("an ended session lives")
	}
}

// An administrator's request ends with the role, another of the same session does not.
func TestService_Lives_demoted(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.ok(h.SetAdmin(t.Context(), admin(), porter, true))
	local := h.actor(h.login(porter).Access)
	web := local
	web.Origin = site.Admin
	if !h.Lives(web) {
		t.Error("an administrator's session does not live")
	}
	h.ok(h.SetAdmin(t.Context(), admin(), porter, false))
	if h.Lives(web) || !h.Lives(local) {
		t.Errorf("after the role ended: as administrator %t, locally %t", h.Lives(web), h.Lives(local))
	}
}

func TestService_Revoke_unknown(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	ctx := t.Context()
	for _, refresh := range badRefreshTokens(tokens.Refresh) {
		h.refused(h.RevokeByRefresh(ctx, refresh), "Token is invalid")
		h.refused(h.RevokeAllByRefresh(ctx, refresh), "Token is invalid")
	}
	actor := h.actor(tokens.Access)
	for _, bad := range []site.Actor{{}, {Account: actor.Account}, {Session: actor.Session}, {Account: "x", Session: actor.Session}} {
		h.refused(h.Revoke(ctx, bad, false), "Token is invalid")
		h.refused(h.Revoke(ctx, bad, true), "Token is invalid")
	}
	h.alive(tokens)
	h.clock.advance(access.SessionLife)
	for _, revoke := range revocations() {
		h.refused(revoke(h, tokens), "Token is invalid")
	}
}

func TestService_RevokeAccount(t *testing.T) {
	h := open(t)
	h.add(guest)
	account := h.add(porter)
	ctx := t.Context()
	_, err := h.RevokeAccount(ctx, admin(), "nobody@example.test")
	h.is(err, fault.NotFound)
	if n, err := h.RevokeAccount(ctx, admin(), porter); n != 0 || err != nil {
		t.Errorf("%d ended, %v", n, err)
	}
	other, one, two := h.login(guest), h.login(porter), h.login(porter)
	h.store.fail("EndSessions", errDisk)
	_, err = h.RevokeAccount(ctx, admin(), porter)
	h.is(err, fault.Unavailable)
	h.dead(one)
	h.dead(two)
	h.store.fail("EndSessions", nil)
	if n, err := h.RevokeAccount(ctx, admin(), porter); n != 2 || err != nil {
		t.Errorf("%d ended, %v", n, err)
	}
	h.alive(other)
	records := h.store.of(site.KindSessionRevoked)
	if len(records) != 1 || records[0].By != admin().Name || records[0].Origin != site.Admin ||
		records[0].Account != account.ID || records[0].Count != 2 {
		t.Errorf("the records are %+v", records)
	}
	h.agree()
}

func TestService_RevokeSession(t *testing.T) {
	h := open(t)
	h.add(guest)
	account := h.add(porter)
	ctx := t.Context()
	other, one, two := h.login(guest), h.login(porter), h.login(porter)
	first := h.actor(one.Access).Session
	h.is(h.RevokeSession(ctx, admin(), "nobody@example.test", first), fault.NotFound)
	h.is(h.RevokeSession(ctx, admin(), guest, first), fault.NotFound)
	h.is(h.RevokeSession(ctx, admin(), porter, ""), fault.NotFound)
	h.alive(one)
	h.store.fail("EndSessions", errDisk)
	h.is(h.RevokeSession(ctx, admin(), porter, first), fault.Unavailable)
	h.dead(one)
	h.store.fail("EndSessions", nil)
	h.ok(h.RevokeSession(ctx, admin(), porter, first))
	h.is(h.RevokeSession(ctx, admin(), porter, first), fault.NotFound)
	h.alive(two)
	h.alive(other)
	records := h.store.of(site.KindSessionRevoked)
	if len(records) != 1 || records[0].By != admin().Name || records[0].Account != account.ID || records[0].Session != first {
		t.Errorf("the records are %+v", records)
	}
	h.agree()
}

func TestService_Sessions(t *testing.T) {
	h := open(t)
	h.add(porter)
	_, err := h.Sessions("nobody@example.test")
	h.is(err, fault.NotFound)
	first := h.login(porter)
	h.clock.advance(time.Hour)
	h.login(porter)
	sessions, err := h.Sessions(porter)
	h.ok(err)
	if len(sessions) != 2 || !sessions[0].Created.Before(sessions[1].Created.Time) {
		t.Errorf("the sessions are %+v", sessions)
	}
	h.clock.advance(access.SessionLife - time.Hour)
	h.dead(first)
	if sessions, _ = h.Sessions(porter); len(sessions) != 1 || h.SessionCount() != 1 {
		t.Errorf("%d sessions listed, %d counted, want the one that has not expired", len(sessions), h.SessionCount())
	}
}

func TestService_Run_dropsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, func(c *access.Config) { c.Clock = processClock{} })
		h.add(porter)
		h.login(porter)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		time.Sleep(access.SessionLife / 2)
		young := h.login(porter)
		time.Sleep(access.SessionLife/2 + access.PruneEvery)
		synctest.Wait()
		if n := len(h.store.kept()); n != 1 {
			t.Errorf("%d sessions are stored", n)
		}
		if _, err := h.Refresh(ctx, young.Refresh); err != nil {
			t.Errorf("the younger session: %v", err)
		}
		cancel()
		h.ok(<-done)
		h.agree()
	})
}
