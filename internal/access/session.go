package access

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

const (
	// sessionLife is how long a session lives (specification, "Limits").
	sessionLife = 30 * 24 * time.Hour
	// maxSessions bounds the sessions of one account; a login beyond it ends another.
	maxSessions = 500
)

// session is a session in memory. It stays there after its end until the store
// has deleted it, so that a client's retry still finds it.
type session struct {
	site.Session // Used is as the store has it
	account      *account
	ended        bool
	used         atomic.Int64 // as Used, in milliseconds since 1970 UTC
}

// lives reports whether the session is good for anything at now.
func (s *session) lives(now time.Time) bool { return !s.ended && now.Before(s.Expires.Time) }

// found reports whether there is an unexpired session; one that has ended counts only where
// ending is set.
func (s *session) found(now time.Time, ending bool) bool {
	return s != nil && now.Before(s.Expires.Time) && (ending || !s.ended)
}

// actor returns the account behind the session.
func (s *session) actor() site.Actor {
	return site.Actor{
		Origin: site.Local, Account: s.Account, Session: s.ID, Email: s.account.Email, Admin: s.account.admin(),
	}
}

// Sessions lists the live sessions of the account with that address, oldest
// first; NotFound without such an account.
func (s *Service) Sessions(email string) ([]site.Session, error) {
	account, err := s.find(email)
	if err != nil {
		return nil, err
	}
	return s.dir.sessionsOf(account.ID, s.clock.Now()), nil
}

// SessionCount counts the live sessions of all accounts.
func (s *Service) SessionCount() (n int) {
	now := s.clock.Now()
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	for _, of := range s.dir.sessions {
		if of.lives(now) {
			n++
		}
	}
	return n
}

// Lives reports whether the session behind actor is alive right now, with its account and,
// for an administrator's request, with that role; true for an actor without a session. Quick.
func (s *Service) Lives(actor site.Actor) bool {
	if actor.Session == "" {
		return true
	}
	_, present, ok := s.dir.bySession(actor.Session, s.clock.Now(), false)
	return ok && (present.Admin || actor.Origin != site.Admin)
}

// addSession enters a session, unless its account is not there.
func (d *directory) addSession(entered site.Session) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[entered.Account]
	if a == nil {
		return nil
	}
	s := &session{Session: entered, account: a}
	s.used.Store(entered.Used.UnixMilli())
	a.sessions[s.ID] = s
	d.sessions[s.ID] = s
	return s
}

// forget drops a session. The caller holds mu.
func (d *directory) forget(id site.SessionID) {
	if s := d.sessions[id]; s != nil {
		delete(s.account.sessions, id)
		delete(d.sessions, id)
		delete(d.rebased, id)
	}
}

// excess names the sessions beyond those that an account may have: the oldest of the network
// that has most of them. So a client that logs in again and again, to an account that many
// share, ends no session of others.
func (d *directory) excess(id site.AccountID) (out []site.SessionID) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[id]
	if a == nil || len(a.sessions) <= maxSessions {
		return nil
	}
	networks, living := make(map[netip.Addr][]*session), 0
	for _, s := range a.sorted() {
		if !s.ended {
			networks[s.network()] = append(networks[s.network()], s)
			living++
		}
	}
	for ; living > maxSessions; living-- {
		most := slices.MaxFunc(slices.Collect(maps.Values(networks)), func(a, b []*session) int {
			return cmp.Or(cmp.Compare(len(a), len(b)), b[0].Created.Compare(a[0].Created.Time))
		})
		out = append(out, most[0].ID)
		networks[most[0].network()] = most[1:]
	}
	return out
}

// network returns the network of the client that logged in.
func (s *session) network() netip.Addr {
	remote, _ := netip.ParseAddr(s.Remote)
	return limit.Network(remote)
}

// sorted returns the sessions of an account, oldest first. The caller holds mu.
func (a *account) sorted() []*session {
	all := make([]*session, 0, len(a.sessions))
	for _, s := range a.sessions {
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b *session) int {
		return cmp.Or(a.Created.Compare(b.Created.Time), cmp.Compare(a.ID, b.ID))
	})
	return all
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
	for _, s := range a.sorted() {
		if s.lives(now) {
			shown := s.Session
			shown.Used = site.At(time.UnixMilli(s.used.Load()))
			out = append(out, shown)
		}
	}
	return out
}

// uses returns when sessions were used last, those for which the store has another time.
func (d *directory) uses() map[site.SessionID]time.Time {
	d.mu.RLock()
	defer d.mu.RUnlock()
	uses := make(map[site.SessionID]time.Time)
	for id, s := range d.sessions {
		if used := s.used.Load(); used != s.Used.UnixMilli() {
			uses[id] = time.UnixMilli(used)
		}
	}
	return uses
}

// usesStored takes note of uses that are stored.
func (d *directory) usesStored(uses map[site.SessionID]time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, at := range uses {
		if s := d.sessions[id]; s != nil {
			s.Used = site.At(at)
		}
	}
}

// bySession returns an unexpired session, which a request uses, and the account behind it; an
// ended one only where ending is set.
func (d *directory) bySession(id site.SessionID, now time.Time, ending bool) (site.Session, site.Actor, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	s := d.sessions[id]
	if !s.found(now, ending) {
		return site.Session{}, site.Actor{}, false
	}
	s.used.Store(now.UnixMilli())
	return s.Session, s.actor(), true
}

// dropExpired forgets what has expired.
func (d *directory) dropExpired(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, s := range d.sessions {
		if !now.Before(s.Expires.Time) {
			d.forget(id)
		}
	}
	for _, a := range d.accounts {
		a.dropDevices(now)
	}
}
