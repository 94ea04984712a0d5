package gateway

import (
	"context"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// endAll ends every session and integration token, and makes a new key for access tokens. The
// key is stored last: the disk may hang.
func (g *Gateway) endAll(ctx context.Context, by site.Actor) (adminapi.AllEnded, error) {
	key := newKey()
	sessions, tokens, err := g.access.EndAll(ctx, by, key)
	g.log.Info("every session has ended", "by", by.Name, "sessions", sessions, "tokens", tokens)
	if err == nil {
		if unsaved := renewTokenKey(g.cfg.Data, key); unsaved != nil {
			err = fault.Wrap(fault.Unavailable,
				"Every session and token has ended, but the new key for access tokens cannot be stored: see gatehouse doctor, and do this again", unsaved)
		}
	}
	return adminapi.AllEnded{Sessions: sessions, Tokens: tokens}, err
}
