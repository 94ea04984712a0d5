package access_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/site"
)

const day = 24 * time.Hour

// step makes the clock trusted and jump, as the time service does it.
func (h *house) step(by time.Duration) {
	h.clock.trust(true)
	h.clock.advance(by)
	h.stepped(by)
}

// stepped tells of a step and stores what it changed.
func (h *house) stepped(by time.Duration) {
	h.ClockStepped(by)
	_ = h.StoreRebased(context.Background()) // Run retries it
}

// expires returns the stored expiry of the only session.
func (h *house) expires() time.Time {
	h.t.Helper()
	kept := h.store.kept()
	if len(kept) != 1 {
		h.t.Fatalf("%d sessions are stored", len(kept))
	}
	return h.store.sessions[kept[0]].Expires.Time
}

// A board that starts with the time of long ago logs nobody out when it learns
// the true time: the access token is over, the refresh token is not.
func TestService_ClockStepped(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.clock.trust(false)
	tokens := h.login(porter)
	h.alive(tokens)
	h.clock.advance(day)
	h.step(400 * day)
	_, err := h.Authenticate(tokens.Access)
	h.refused(err, "Token is invalid")
	fresh, err := h.Refresh(t.Context(), tokens.Refresh)
	h.ok(err)
	h.actor(fresh)
	if want := h.clock.Now().Add(29 * day); !h.expires().Equal(want) {
		t.Errorf("the session expires %v, want %v: what was left of it", h.expires(), want)
	}
	h.agree()
	h.clock.advance(29*day - time.Millisecond)
	_, err = h.Refresh(t.Context(), tokens.Refresh)
	h.ok(err)
	h.clock.advance(time.Millisecond)
	_, err = h.Refresh(t.Context(), tokens.Refresh)
	h.refused(err, "Token is invalid")
}

// The device of a session follows it over the step, also after a restart; one that logged in
// under a trusted clock does not.
func TestService_ClockStepped_devices(t *testing.T) {
	h := open(t)
	h.add(porter)
	before := h.device(porter, address(1))
	h.clock.advance(day)
	h.clock.trust(false)
	mine := h.device(porter, address(2))
	h.step(29 * day)
	h.agree()
	if h.knows(porter, before) {
		t.Error("a device of a trusted clock has lived on")
	}
	h.restart()
	h.clock.advance(30*day - time.Millisecond)
	if !h.knows(porter, mine) {
		t.Error("the device has lost a part of its life")
	}
}

func TestService_ClockStepped_onlyOnce(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.clock.trust(false)
	tokens := h.login(porter)
	h.step(10 * day)
	want := h.expires()
	h.step(10 * day) // the session rests on a trusted clock by now
	h.restart()
	h.step(10 * day)
	if !h.expires().Equal(want) || h.store.called("RebaseSessions") != 1 {
		t.Errorf("it expires %v, want %v", h.expires(), want)
	}
	h.clock.advance(10 * day)
	h.dead(tokens)
}

// A step carries no session beyond 30 days from now, whatever it is told.
func TestService_ClockStepped_capped(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.clock.trust(false)
	h.login(porter)
	h.clock.trust(true)
	h.clock.advance(day)
	h.stepped(1000 * day)
	if want := h.clock.Now().Add(access.SessionLife); !h.expires().Equal(want) {
		t.Errorf("it expires %v, want %v", h.expires(), want)
	}
}

func TestService_ClockStepped_withoutStep(t *testing.T) {
	for _, by := range []time.Duration{0, -time.Hour} {
		h := open(t)
		h.add(porter)
		h.clock.trust(false)
		tokens := h.login(porter)
		want := h.expires()
		h.clock.trust(true)
		h.stepped(by)
		if !h.expires().Equal(want) {
			t.Errorf("it expires %v, want %v", h.expires(), want)
		}
		h.alive(tokens)
		h.clock.trust(false) // a later step finds it resting on a trusted clock
		h.step(access.SessionLife)
		h.dead(tokens)
	}
}

// Sessions from a trusted clock are judged by the true time.
func TestService_ClockStepped_trustedSession(t *testing.T) {
	h := open(t)
	h.add(porter)
	young := h.login(porter)
	h.clock.trust(false)
	h.step(access.SessionLife - time.Hour)
	if _, err := h.Refresh(t.Context(), young.Refresh); err != nil {
		t.Errorf("it has an hour left: %v", err)
	}
	h.clock.trust(false)
	h.step(time.Hour)
	h.dead(young)
}

// What had expired before the step stays dead.
func TestService_ClockStepped_expired(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.clock.trust(false)
	tokens := h.login(porter)
	h.clock.advance(access.SessionLife)
	h.dead(tokens)
	h.step(100 * day)
	h.dead(tokens)
	h.restart()
	h.dead(tokens)
}

// What was revoked before the step stays dead, stored or not.
func TestService_ClockStepped_revoked(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.clock.trust(false)
	tokens := h.login(porter)
	h.store.fail("EndSessions", errDisk)
	_ = h.RevokeByRefresh(t.Context(), tokens.Refresh)
	h.step(day)
	h.dead(tokens)
	h.store.fail("EndSessions", nil)
	h.ok(h.RevokeByRefresh(t.Context(), tokens.Refresh))
	h.agree()
	h.dead(tokens)
}

// An earlier run's sessions from an untrusted clock are carried too.
func TestService_ClockStepped_afterRestart(t *testing.T) {
	h := open(t)
	h.add(porter)
	h.clock.trust(false)
	tokens := h.login(porter)
	h.restart()
	h.step(400 * day)
	_, err := h.Refresh(t.Context(), tokens.Refresh)
	h.ok(err)
}

// A new expiry that cannot be stored is stored later; until then nothing that
// lives is dropped by its old one.
func TestService_ClockStepped_storageFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		h.clock.trust(false)
		tokens := h.login(porter)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Run(ctx) }()
		h.store.fail("RebaseSessions", errDisk)
		h.step(400 * day)
		time.Sleep(2 * access.PruneEvery)
		synctest.Wait()
		if h.store.called("DropExpired") != 0 || len(h.store.kept()) != 1 {
			t.Error("the store was told to drop what lives")
		}
		h.store.fail("RebaseSessions", nil)
		time.Sleep(access.FlushEvery)
		synctest.Wait()
		if want := h.clock.Now().Add(access.SessionLife); !h.expires().Equal(want) {
			t.Errorf("it is stored to expire %v, want %v", h.expires(), want)
		}
		time.Sleep(access.PruneEvery)
		synctest.Wait()
		if h.store.called("DropExpired") != 1 {
			t.Errorf("dropped %d times", h.store.called("DropExpired"))
		}
		cancel()
		h.ok(<-done)
		h.agree()
		_, err := h.Refresh(context.Background(), tokens.Refresh)
		h.ok(err)
	})
}

// An untrusted clock hinders nobody: logging in, refreshing and logging out go on.
func TestService_untrustedClock(t *testing.T) {
	h := open(t)
	h.clock.trust(false)
	h.add(porter)
	tokens := h.login(porter)
	h.alive(tokens)
	if sessions, _ := h.Sessions(porter); len(sessions) != 1 || sessions[0].ClockTrusted {
		t.Errorf("the sessions are %+v", sessions)
	}
	h.ok(h.RevokeByRefresh(t.Context(), tokens.Refresh))
	h.dead(tokens)
	if n := len(h.store.of(site.KindSessionRevoked)); n != 1 {
		t.Errorf("%d records", n)
	}
}
