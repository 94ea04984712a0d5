package access

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"gatehouse/internal/site"
)

const (
	// sessionLife is how long a session lives (specification, "Limits").
	sessionLife = 30 * 24 * time.Hour
	// maxSessions bounds the sessions of one account; a login beyond it ends the
	// oldest.
	maxSessions = 500
)

// session is a session in memory. It stays there after its end until the store
// has taken note of it, so that a client's retry still finds it.
type session struct {
	site.Session
	account *account
	ended   *site.Record // why it is dead; nil while it lives. Shared by sessions that ended together
	rebased bool         // whether Expires is newer than what the store holds
	issued  atomic.Int64 // which iat its access tokens have since the start, see nextIssue
}

// Sessions lists the live sessions of the account with that address, oldest
// first, without the hashes of their refresh tokens; NotFound without such an
// account.
func (s *Service) Sessions(email string) ([]site.Session, error) {
	account, err := s.find(email)
	if err != nil {
		return nil, err
	}
	return s.dir.sessionsOf(account.ID, s.clock.Now()), nil
}

// SessionCount counts the live sessions of all accounts.
func (s *Service) SessionCount() int { return s.dir.countSessions(s.clock.Now()) }

// lives reports whether the session is good for anything at now.
func (s *session) lives(now time.Time) bool { return s.ended == nil && now.Before(s.Expires) }

// addSession enters a session, unless its account is not there, and forgets the
// evicted ones. It carries the session over the steps of the clock that came after past,
// which was read before the session was made.
func (d *directory) addSession(entered site.Session, evicted []site.SessionID, past steps) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range evicted {
		if s := d.sessions[id]; s != nil {
			d.forget(s)
		}
	}
	a := d.accounts[entered.Account]
	if a == nil {
		return
	}
	s := &session{Session: entered, account: a}
	a.remember(s.Remote, s.Expires)
	if d.steps.count != past.count {
		s.rebase(d.steps.now, d.steps.sum-past.sum)
	}
	a.sessions[s.ID] = s
	d.sessions[s.ID] = s
	d.refresh[s.Refresh] = s
}

// forget takes a session out of every map; the caller holds mu.
func (d *directory) forget(s *session) {
	delete(s.account.sessions, s.ID)
	delete(d.sessions, s.ID)
	delete(d.refresh, s.Refresh)
}

// excess names the oldest sessions that must go before the account may have one
// more.
func (d *directory) excess(id site.AccountID) []site.SessionID {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[id]
	if a == nil || len(a.sessions) < maxSessions {
		return nil
	}
	all := make([]site.Session, 0, len(a.sessions))
	for _, s := range a.sessions {
		all = append(all, s.Session)
	}
	slices.SortStableFunc(all, older)
	out := make([]site.SessionID, 0, 1)
	for _, s := range all[:len(all)-maxSessions+1] {
		out = append(out, s.ID)
	}
	return out
}

// older orders sessions by age.
func older(a, b site.Session) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// byRefresh returns the unexpired session with that hash of its refresh token; an
// ended one only where ending is set.
func (d *directory) byRefresh(sum [32]byte, now time.Time, ending bool) (site.Session, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	s := d.refresh[sum]
	if s == nil || !now.Before(s.Expires) || (s.ended != nil && !ending) {
		return site.Session{}, false
	}
	return s.Session, true
}

// issue returns the iat of a new access token of a session: now in whole seconds, or
// where that was given out already, the latest second before that was not, because
// tokens with the same claims would be the same. None is ahead of now, so that no token
// lives longer than it may. Where the last issueBack seconds may all have been given out,
// the token is the same again, which harms nothing.
func (d *directory) issue(id site.SessionID, now time.Time) time.Time {
	d.mu.RLock()
	defer d.mu.RUnlock()
	second := now.Unix()
	s := d.sessions[id]
	if s == nil { // it has ended meanwhile, and so has every token of it
		return time.Unix(second, 0)
	}
	for {
		last := s.issued.Load()
		iat, next := nextIssue(last, second)
		if s.issued.CompareAndSwap(last, next) {
			return time.Unix(iat, 0)
		}
	}
}

const (
	// issueBack is how many seconds before now a token may be dated.
	issueBack = 60
	// issueSpan is the width of the span in a packed pair.
	issueSpan = 8
)

// nextIssue returns the iat for a token of this second, and the pair that says which may have
// been given out: the latest of them, and in the lowest issueSpan bits how far back from it
// the earliest was.
func nextIssue(pair, second int64) (iat, next int64) {
	latest, span := pair>>issueSpan, pair&(1<<issueSpan-1)
	switch earliest := latest - span; {
	case second > latest+issueBack, second < earliest: // or the clock has stepped back
		return second, second << issueSpan
	case second > latest:
		return second, second<<issueSpan | min(second-earliest, issueBack)
	case second-earliest >= issueBack:
		return second, pair
	default:
		return earliest - 1, pair + 1
	}
}

// bySession returns the unexpired session with that id of that account, alive or
// ending.
func (d *directory) bySession(id site.SessionID, account site.AccountID, now time.Time) (site.Session, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	s := d.sessions[id]
	if s == nil || s.Account != account || !now.Before(s.Expires) {
		return site.Session{}, false
	}
	return s.Session, true
}

// actor returns the account behind a session; an ended one only where ending is set.
func (d *directory) actor(id site.SessionID, account site.AccountID, now time.Time, ending bool) (site.Actor, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	s := d.sessions[id]
	if s == nil || s.Account != account || !now.Before(s.Expires) || (s.ended != nil && !ending) {
		return site.Actor{}, false
	}
	return site.Actor{
		Origin: site.Local, Account: s.Account, Session: s.ID, Email: s.account.Email, Admin: s.account.Admin,
	}, true
}

// dropExpired forgets what has expired.
func (d *directory) dropExpired(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		if !now.Before(s.Expires) {
			d.forget(s)
		}
	}
}

// sessionsOf lists the live sessions of an account, oldest first.
func (d *directory) sessionsOf(id site.AccountID, now time.Time) []site.Session {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[id]
	if a == nil {
		return nil
	}
	out := make([]site.Session, 0, len(a.sessions))
	for _, s := range a.sessions {
		if s.lives(now) {
			seen := s.Session
			seen.Refresh = [32]byte{}
			out = append(out, seen)
		}
	}
	slices.SortStableFunc(out, older)
	return out
}

func (d *directory) countSessions(now time.Time) int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := 0
	for _, s := range d.sessions {
		if s.lives(now) {
			n++
		}
	}
	return n
}
