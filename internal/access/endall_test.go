package access_test

import (
	"testing"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const nextKey = "the next key of these tests, 0123456789"

// Every session and token of everybody ends at once, also while the storage fails, and with
// the former key nothing is signed any more, not even for a session that is known.
func TestService_EndAll(t *testing.T) {
	for name, broken := range map[string]error{"stored": nil, "storage fails": errDisk} {
		t.Run(name, func(t *testing.T) {
			h := open(t)
			h.add(porter)
			h.add(guest)
			h.ok(h.SetAdmin(t.Context(), admin(), porter, true))
			sessions := []access.Tokens{h.login(porter), h.login(porter), h.login(guest)}
			_, text, err := h.Tokens().Add(t.Context(), admin(), "Lobby", site.Scope{Read: true}, time.Time{})
			h.ok(err)
			by := h.actor(sessions[0].Access)
			by.Origin = site.Admin
			h.store.fail("", broken)
			ended, removed, err := h.EndAll(t.Context(), by, []byte(nextKey))
			if broken != nil {
				h.is(err, fault.Unavailable)
			} else {
				h.ok(err)
			}
			if ended != 3 || removed != 1 {
				t.Errorf("%d sessions and %d tokens ended", ended, removed)
			}
			for _, tokens := range sessions {
				h.dead(tokens)
			}
			_, err = h.Authenticate(text)
			h.refused(err, "Token is invalid")
			if broken != nil {
				h.store.fail("", nil)
				_, _, err = h.EndAll(t.Context(), admin(), []byte(nextKey))
				h.ok(err)
			}
			if len(h.store.kept()) != 0 || len(h.store.of(site.KindTokenRemoved)) != 1 {
				t.Errorf("stored are %v", h.store.kept())
			}
			records := h.store.of(site.KindSessionRevoked)
			if last := records[len(records)-1]; len(records) != 3 || last.Account != "" || last.Detail == "" {
				t.Errorf("the records are %+v", records)
			}

			fresh := h.login(porter)
			h.alive(fresh)
			h.actor(h.forge(fresh.Access, func(_, _ map[string]any) {}, nextKey))
			_, err = h.Authenticate(h.forge(fresh.Access, func(_, _ map[string]any) {}, keyText))
			h.refused(err, "Token is invalid")
			h.agree()
		})
	}
}
