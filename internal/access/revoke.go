package access

import (
	"context"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

// RefreshToRevoke returns the account and session of a refresh token, as
// [Service.AuthenticateToRevoke] does of an access token: Unauthenticated when there is no
// such session.
func (s *Service) RefreshToRevoke(refresh site.Secret) (site.Actor, error) {
	cookie, ok := cookieOf(refresh)
	if !ok {
		return site.Actor{}, errToken
	}
	return s.CookieToRevoke(cookie)
}

// CookieToRevoke is [Service.RefreshToRevoke] for the cookie of a session.
func (s *Service) CookieToRevoke(cookie site.Secret) (site.Actor, error) {
	return s.authenticateCookie(cookie, true)
}

// Revoke ends the session of by, or with all every session of its account. They are
// dead for every request from now on, whatever comes back: Unauthenticated when there is no
// such session, Unavailable when the end could not be stored yet. A retry, with an actor
// from [Service.RefreshToRevoke] or [Service.AuthenticateToRevoke], then tries the store
// again, and so does [Service.Run].
func (s *Service) Revoke(ctx context.Context, by site.Actor, all bool) error {
	now := s.clock.Now()
	session, actor, ok := s.dir.bySession(by.Session, now, true)
	if !ok || session.Account != by.Account {
		return errToken
	}
	rec := site.Record{Kind: site.KindSessionRevoked, Facts: site.Facts{
		Origin: site.Local, Account: actor.Account, Email: actor.Email, Session: actor.Session,
	}}
	if all {
		rec.Detail = "every session of the account, by this one"
	}
	_, err := s.end(ctx, site.Actor{}, func(id site.SessionID) bool { return all || id == actor.Session }, rec)
	return err
}

// RevokeAccount ends every session of the account with that address and returns how
// many. NotFound without such an account; Unavailable when the end could not be
// stored yet: the sessions are dead all the same.
func (s *Service) RevokeAccount(ctx context.Context, by site.Actor, email string) (ended int, err error) {
	account, err := s.find(email)
	if err != nil {
		return 0, err
	}
	rec := change(by, site.KindSessionRevoked, account, "every session of the account, by an administrator")
	return s.end(ctx, by, every, rec)
}

// RevokeOthers is [Service.RevokeAccount], but spares the session of by.
func (s *Service) RevokeOthers(ctx context.Context, by site.Actor, email string) (ended int, err error) {
	account, err := s.find(email)
	if err != nil {
		return 0, err
	}
	rec := change(by, site.KindSessionRevoked, account, "every other session of the account, by an administrator")
	return s.end(ctx, by, func(id site.SessionID) bool { return id != by.Session }, rec)
}

// RevokeSession ends one session of the account with that address. NotFound without
// such an account or live session; Unavailable when the end could not be stored yet: the
// session is dead all the same.
func (s *Service) RevokeSession(ctx context.Context, by site.Actor, email string, id site.SessionID) error {
	account, err := s.find(email)
	if err != nil {
		return err
	}
	rec := change(by, site.KindSessionRevoked, account, "one session, by an administrator")
	rec.Session = id
	ended, err := s.end(ctx, by, func(one site.SessionID) bool { return one == id }, rec)
	if err == nil && ended == 0 {
		return fault.New(fault.NotFound, "There is no such session")
	}
	return err
}

// choice reports whether a session is meant.
type choice func(site.SessionID) bool

// every is the choice of all sessions.
func every(site.SessionID) bool { return true }

// end ends those sessions of the account that rec names which are meant. It returns
// how many these are, including those whose end is not stored yet, without those that had
// expired.
func (s *Service) end(ctx context.Context, by site.Actor, which choice, rec site.Record) (ended int, err error) {
	err = s.changes.Revoke(ctx, by, s.ending(which, rec, &ended))
	return ended, err
}

// ending drafts for end, and sets ended.
func (s *Service) ending(which choice, rec site.Record, ended *int) func() ([]site.Amendment, error) {
	return func() ([]site.Amendment, error) {
		var living []site.SessionID
		living, *ended = s.dir.toEnd(rec.Account, which, s.clock.Now())
		if len(living) == 0 {
			return nil, nil
		}
		rec.Count = limit.CountOf(len(living))
		return []site.Amendment{{EndSessions: living, Record: rec}}, nil
	}
}

// toEnd returns the sessions of an account, of those that which chooses, that have not ended
// yet, and counts also those that have ended and not expired.
func (d *directory) toEnd(id site.AccountID, which choice, now time.Time) (living []site.SessionID, all int) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[id]
	if a == nil {
		return nil, 0
	}
	for _, s := range a.sessions {
		if !now.Before(s.Expires.Time) || !which(s.ID) {
			continue
		}
		all++
		if !s.ended {
			living = append(living, s.ID)
		}
	}
	return living, all
}

func (d *directory) forgetAll(ids []site.SessionID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		d.forget(id)
	}
}
