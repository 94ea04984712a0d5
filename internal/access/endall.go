package access

import (
	"context"
	"fmt"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

// EndAll ends every session, that of by too, removes every integration token, and signs and
// accepts access tokens with another key of 32 bytes or more from now on. A login in flight no
// longer succeeds. It returns how
// many there were. All of it takes effect at once, whatever it returns: Unavailable when it
// could not be stored yet, Unauthenticated when by may do nothing any more.
func (s *Service) EndAll(ctx context.Context, by site.Actor, key []byte) (sessions, tokens int, err error) {
	if err := s.changes.Check(by); err != nil {
		return 0, 0, err
	}
	s.tokens.key.Store(&key)
	s.verified.forget()
	s.dir.voidLogins()
	err = s.changes.Revoke(ctx, by, func() ([]site.Amendment, error) {
		all := s.apps.DraftRemovals(by)
		tokens = len(all)
		for _, account := range s.Accounts() {
			living, n := s.dir.toEnd(account.ID, every, s.clock.Now())
			if sessions += n; len(living) > 0 {
				rec := change(by, site.KindSessionRevoked, account, "every session of everybody, by an administrator")
				rec.Count = limit.CountOf(len(living))
				all = append(all, site.Amendment{EndSessions: living, Record: rec})
			}
		}
		return all, nil
	})
	if err != nil {
		return sessions, tokens, err
	}
	rec := change(by, site.KindSessionRevoked, site.Account{}, fmt.Sprintf("integration tokens removed: %d; access tokens have a new key", tokens))
	rec.Count = limit.CountOf(sessions)
	return sessions, tokens, s.write(ctx, "recording the end of all sessions", func(ctx context.Context) error {
		return s.store.AppendRecord(ctx, rec)
	})
}
