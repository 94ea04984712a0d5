package access_test

import (
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/site"
)

// Each session is listed with its client and the time of its last request. The times are
// stored once an hour and at the end.
func TestService_Sessions_lastUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t)
		h.add(porter)
		tokens, err := h.Login(t.Context(), porter, right, access.Client{Remote: address(1), Name: "Firefox on Android"})
		h.ok(err)
		h.clock.advance(time.Minute)
		h.login(porter)
		used := func(want time.Time) {
			t.Helper()
			sessions, err := h.Sessions(porter)
			h.ok(err)
			if len(sessions) != 2 || sessions[0].Client != "Firefox on Android" || sessions[1].Client != "" {
				t.Fatalf("the sessions are %+v", sessions)
			}
			if got := sessions[0].Used; !got.Equal(want) {
				t.Errorf("last used %s, want %s", got, want)
			}
			if got := sessions[1]; got.Used != got.Created {
				t.Errorf("the session that only began was used %s", got.Used)
			}
		}
		used(h.clock.Now().Add(-time.Minute))
		for _, use := range []func() error{
			func() error { _, err := h.Authenticate(tokens.Access); return err },
			func() error { _, err := h.AuthenticateCookie(tokens.Cookie); return err },
			func() error { _, err := h.Refresh(t.Context(), tokens.Refresh); return err },
		} {
			h.clock.advance(time.Minute)
			h.ok(use())
			used(h.clock.Now())
		}
		stop := h.running()
		time.Sleep(61 * time.Minute)
		stop()
		if n := h.store.called("DropExpired"); n != 1 {
			t.Errorf("stored %d times in an hour and at the end", n)
		}
		h.restart()
		used(h.clock.Now())

		stop = h.running()
		h.clock.advance(time.Minute)
		_, err = h.AuthenticateCookie(tokens.Cookie)
		h.ok(err)
		stop()
		h.restart()
		used(h.clock.Now())
	})
}

// When a session was used that an earlier version has stored is unknown until its next use.
func TestService_Sessions_unknown(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	for id, s := range h.store.sessions {
		s.Used = site.Timestamp{}
		h.store.sessions[id] = s
	}
	h.restart()
	for _, want := range []site.Timestamp{{}, site.At(h.clock.Now())} {
		if sessions, err := h.Sessions(porter); err != nil || sessions[0].Used != want {
			t.Errorf("%+v, %v; want %s", sessions, err, want)
		}
		_, err := h.Authenticate(tokens.Access)
		h.ok(err)
	}
}
