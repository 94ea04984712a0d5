package access_test

import (
	"testing"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/site"
)

// A token that was found good is remembered as good, within a bound; its expiry and
// its session's end still count at once, and a token that was refused is not
// remembered.
func TestService_Authenticate_remembersWithinBounds(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	for range 3 {
		h.actor(tokens.Access)
	}
	_, err := h.Authenticate(tokens.Access + "x")
	h.refused(err, "Token is invalid")
	now, most := h.Verified()
	if now != 1 {
		t.Errorf("%d tokens are remembered, want the one", now)
	}
	largest := 0
	for range most + 10 { // each token differs, because each has a nonce
		h.clock.advance(1e9)
		fresh, err := h.Refresh(t.Context(), tokens.Refresh)
		h.ok(err)
		h.actor(fresh)
		now, _ = h.Verified()
		largest = max(largest, now)
	}
	if largest != most {
		t.Errorf("%d tokens are remembered, want %d at most", largest, most)
	}
	h.actor(mustRefresh(t, h, tokens.Refresh))
	remembered := mustRefresh(t, h, tokens.Refresh)
	h.actor(remembered)
	h.clock.advance(access.AccessLife + 2*time.Second) // it is the third token of its second
	_, err = h.Authenticate(remembered)
	h.refused(err, "Token is invalid")
	remembered = mustRefresh(t, h, tokens.Refresh)
	h.actor(remembered)
	h.ok(h.RevokeByRefresh(t.Context(), tokens.Refresh))
	_, err = h.Authenticate(remembered)
	h.refused(err, "Token is invalid")
}

func mustRefresh(t *testing.T, h *house, refresh site.Secret) site.Secret {
	t.Helper()
	fresh, err := h.Refresh(t.Context(), refresh)
	h.ok(err)
	return fresh
}
