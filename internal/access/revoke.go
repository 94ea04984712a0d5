package access

import (
	"context"
	"slices"
	"time"

	"gatehouse/internal/access/amend"
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
	only := actor.Session
	if all {
		only, rec.Detail = "", "every session of the account, by this one"
	}
	return s.storeEnd(ctx, s.dir.end(actor.Account, only, now, &rec), &rec)
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
	ids := s.dir.end(account.ID, "", s.clock.Now(), &rec)
	return len(ids), s.storeEnd(ctx, ids, &rec)
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
	var ids []site.SessionID
	if id != "" { // which would be all of them
		ids = s.dir.end(account.ID, id, s.clock.Now(), &rec)
	}
	if len(ids) == 0 {
		return fault.New(fault.NotFound, "There is no such session")
	}
	return s.storeEnd(ctx, ids, &rec)
}

// storeEnd stores the end of sessions that are dead in memory already, then
// forgets them. Those whose end someone else has stored meanwhile are left out. All
// are of the account that rec names.
func (s *Service) storeEnd(ctx context.Context, ids []site.SessionID, rec *site.Record) error {
	if len(ids) == 0 {
		return nil
	}
	unlock, err := s.lockSessions(ctx, rec.Account)
	if err != nil {
		return err
	}
	defer unlock()
	ids = s.dir.stillEnding(ids)
	if len(ids) == 0 {
		return nil
	}
	written := *rec
	written.Count = limit.CountOf(len(ids))
	err = s.write(ctx, "storing the end of sessions", func(ctx context.Context) error {
		return s.store.EndSessions(ctx, ids, written)
	})
	if err != nil {
		return err
	}
	s.dir.forgetAll(ids)
	s.log.Info("sessions ended", "account", written.Account, "count", len(ids))
	return nil
}

// lockSessions locks the stored sessions of an account, and returns what unlocks them.
// Nothing is locked where there is no such account. Unavailable when ctx ends first.
func (s *Service) lockSessions(ctx context.Context, id site.AccountID) (unlock func(), err error) {
	s.dir.mu.RLock()
	a := s.dir.accounts[id]
	s.dir.mu.RUnlock()
	if a == nil {
		return func() {}, nil
	}
	return amend.Acquire(ctx, a.writing)
}

// retryEnded stores the ends that the store would not take before, up to the first
// that it does not take again.
func (s *Service) retryEnded(ctx context.Context) error {
	for rec, ids := range s.dir.ending() {
		if err := s.storeEnd(ctx, ids, rec); err != nil {
			return err
		}
	}
	return nil
}

// end makes a session of an account dead, or all where none is named, for the reason that
// rec states. It returns their ids, including those whose end the store has not noted yet,
// without those that had expired.
func (d *directory) end(id site.AccountID, only site.SessionID, now time.Time, rec *site.Record) (ids []site.SessionID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[id]
	if a == nil {
		return nil
	}
	for _, s := range a.sessions {
		if now.Before(s.Expires.Time) && (only == "" || s.ID == only) {
			s.ended = rec
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// stillEnding returns those of ids that have ended and are not forgotten.
func (d *directory) stillEnding(ids []site.SessionID) []site.SessionID {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(ids), func(id site.SessionID) bool {
		s := d.sessions[id]
		return s == nil || s.ended == nil
	})
}

// ending returns the ended sessions by what ended them.
func (d *directory) ending() map[*site.Record][]site.SessionID {
	d.mu.RLock()
	defer d.mu.RUnlock()
	out := make(map[*site.Record][]site.SessionID)
	for _, s := range d.sessions {
		if s.ended != nil {
			out[s.ended] = append(out[s.ended], s.ID)
		}
	}
	return out
}

func (d *directory) forgetAll(ids []site.SessionID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		d.forget(id)
	}
}
