package access

import (
	"context"
	"slices"
	"time"

	"gatehouse/internal/site"
)

// RevokeByRefresh ends the session of a refresh token. It is dead for every
// request from now on, whatever comes back: Unauthenticated when there is no such
// session, Unavailable when the end could not be stored yet. A retry then tries
// the store again, and so does [Service.Run].
func (s *Service) RevokeByRefresh(ctx context.Context, refresh site.Secret) error {
	found, ok := s.byRefresh(refresh)
	if !ok {
		return errToken
	}
	return s.revoke(ctx, found)
}

// RevokeBySession is [Service.RevokeByRefresh] for the session of actor. A retry
// needs an actor from [Service.AuthenticateToRevoke].
func (s *Service) RevokeBySession(ctx context.Context, actor site.Actor) error {
	found, ok := s.byActor(actor)
	if !ok {
		return errToken
	}
	return s.revoke(ctx, found)
}

// RevokeAllByRefresh ends every session of the account behind a refresh token;
// otherwise like [Service.RevokeByRefresh].
func (s *Service) RevokeAllByRefresh(ctx context.Context, refresh site.Secret) error {
	found, ok := s.byRefresh(refresh)
	if !ok {
		return errToken
	}
	return s.revokeAll(ctx, found)
}

// RevokeAllByActor ends every session of the account of actor; otherwise like
// [Service.RevokeBySession].
func (s *Service) RevokeAllByActor(ctx context.Context, actor site.Actor) error {
	found, ok := s.byActor(actor)
	if !ok {
		return errToken
	}
	return s.revokeAll(ctx, found)
}

// RevokeAccount ends every session of the account with that address and says how
// many. NotFound without such an account; Unavailable when the end could not be
// stored yet: the sessions are dead all the same.
func (s *Service) RevokeAccount(ctx context.Context, by site.Actor, email string) (ended int, err error) {
	account, err := s.find(email)
	if err != nil {
		return 0, err
	}
	rec := change(by, site.KindSessionRevoked, account, "every session of the account, by an administrator")
	ids := s.dir.endAll(account.ID, s.clock.Now(), &rec)
	return len(ids), s.storeEnd(ctx, ids, &rec)
}

// byRefresh finds the unexpired session of a refresh token, alive or ending.
func (s *Service) byRefresh(refresh site.Secret) (site.Session, bool) {
	sum, ok := sumOfRefresh(refresh)
	if !ok {
		return site.Session{}, false
	}
	return s.dir.byRefresh(sum, s.clock.Now(), true)
}

// byActor finds the unexpired session of actor, alive or ending.
func (s *Service) byActor(actor site.Actor) (site.Session, bool) {
	return s.dir.bySession(actor.Session, actor.Account, s.clock.Now())
}

// revoke ends one session at its own request.
func (s *Service) revoke(ctx context.Context, of site.Session) error {
	account, _ := s.dir.byID(of.Account)
	rec := site.Record{Kind: site.KindSessionRevoked, Facts: site.Facts{
		Origin: site.Local, Account: account.ID, Email: account.Email, Session: of.ID,
	}}
	ids := []site.SessionID{of.ID}
	s.dir.end(ids, &rec)
	return s.storeEnd(ctx, ids, &rec)
}

// revokeAll ends all sessions of an account at the request of one of them.
func (s *Service) revokeAll(ctx context.Context, of site.Session) error {
	account, _ := s.dir.byID(of.Account)
	rec := site.Record{Kind: site.KindSessionRevoked, Facts: site.Facts{
		Origin: site.Local, Account: account.ID, Email: account.Email, Session: of.ID,
		Detail: "every session of the account, by this one",
	}}
	return s.storeEnd(ctx, s.dir.endAll(account.ID, s.clock.Now(), &rec), &rec)
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
	written.Count = countOf(len(ids))
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
	writing := s.dir.writing(id)
	if writing == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeDeadline)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, unavailable("storing a session", err)
	}
	select {
	case writing <- struct{}{}:
		return func() { <-writing }, nil
	case <-ctx.Done():
		return nil, unavailable("waiting for another session to be stored", ctx.Err())
	}
}

// writing returns the lock of the stored sessions of an account; nil where there is no
// such account.
func (d *directory) writing(id site.AccountID) chan struct{} {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if a := d.accounts[id]; a != nil {
		return a.writing
	}
	return nil
}

// countOf is the Count of a record for n things: a single one goes without.
func countOf(n int) int {
	if n == 1 {
		return 0
	}
	return n
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

// end makes sessions dead, for the reason that rec states.
func (d *directory) end(ids []site.SessionID, rec *site.Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if s := d.sessions[id]; s != nil {
			s.ended = rec
		}
	}
}

// endAll makes every session of an account dead and names them, with those whose
// end the store has not noted yet and without those that had expired.
func (d *directory) endAll(id site.AccountID, now time.Time, rec *site.Record) []site.SessionID {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[id]
	if a == nil {
		return nil
	}
	ids := make([]site.SessionID, 0, len(a.sessions))
	for _, s := range a.sessions {
		if now.Before(s.Expires) {
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
		if s := d.sessions[id]; s != nil {
			d.forget(s)
		}
	}
}
