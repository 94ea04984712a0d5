package access_test

import (
	"testing"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// The chain of a session never changes: every session that is stored would end.
func TestSession_chain(t *testing.T) {
	const refresh = site.Secret("6f1c2b3a-1111-4222-8333-444455556666")
	for _, given := range []site.Secret{refresh, "6F1C2B3A-1111-4222-8333-444455556666"} {
		cookie, sid, id := access.Chain(given)
		if cookie.Reveal() != "LW3r7b27NXG_nuVTUqNllQ_h7tcrLhZnH2aDqwBZ6fk" || sid.Reveal() != "i9lppegD42arzt7vya4hHx8fTW6DNmBwI0IqStmNxvk" || id != "9f5b60dc-efeb-8408-9818-aa04022c8840" {
			t.Errorf("%s: %s, %s, %s", given.Reveal(), cookie.Reveal(), sid.Reveal(), id)
		}
	}
}

// No secret of a session counts in the place of another, nor does its id.
func TestSession_secretsApart(t *testing.T) {
	h := open(t)
	h.add(porter)
	tokens := h.login(porter)
	cookie, sid, id := access.Chain(tokens.Refresh)
	for name, secret := range map[string]site.Secret{"refresh token": tokens.Refresh, "cookie": cookie, "sid": sid, "id": site.Secret(id)} {
		for as, use := range map[string]func() error{
			"refresh token": func() error { _, err := h.Refresh(t.Context(), secret); return err },
			"cookie":        func() error { _, err := h.AuthenticateCookie(secret); return err },
			"revocation":    func() error { _, err := h.RefreshToRevoke(secret); return err },
			"access token":  func() error { _, err := h.Authenticate(secret); return err },
		} {
			if name == as || name == "refresh token" && as == "revocation" {
				continue
			}
			if err := use(); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("the %s as a %s: %v", name, as, err)
			}
		}
	}
	for name, sid := range map[string]site.Secret{"cookie": cookie, "refresh token": tokens.Refresh, "id": site.Secret(id)} {
		forged := h.forge(tokens.Access, func(_, c map[string]any) { c["sid"] = sid.Reveal() }, keyText)
		if _, err := h.Authenticate(forged); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("the %s as a sid: %v", name, err)
		}
	}
	h.alive(tokens)
}
