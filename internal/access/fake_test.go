package access_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// errDisk is what a failing store says.
var errDisk = errors.New("disk full")

// loginKey names a client address of an account's logins.
type deviceKey struct {
	account site.AccountID
	sum     [32]byte
}

// memoryStore is an access.Store in memory with the promises of the real one:
// transactions, cascades, unique e-mail addresses. Its methods fail on demand.
type memoryStore struct {
	entered func(method string) // called on entry, outside mu; set before use
	left    func(method string) // called when it is done, outside mu; set before use

	mu       sync.Mutex // guards everything below
	accounts map[site.AccountID]site.Account
	sessions map[site.SessionID]site.Session
	grants   map[site.GrantKey]site.Grant
	groups   map[site.GroupName]site.Group
	holidays map[string]site.Holiday
	known    map[deviceKey]site.LoginDevice
	tokens   map[site.AccountID]site.Token
	records  []site.Record
	failing  map[string]error // by method; "" for every method
	calls    map[string]int
}

func newStore() *memoryStore {
	return &memoryStore{
		entered:  func(string) {},
		left:     func(string) {},
		accounts: make(map[site.AccountID]site.Account),
		sessions: make(map[site.SessionID]site.Session),
		grants:   make(map[site.GrantKey]site.Grant),
		groups:   make(map[site.GroupName]site.Group),
		holidays: make(map[string]site.Holiday),
		known:    make(map[deviceKey]site.LoginDevice),
		tokens:   make(map[site.AccountID]site.Token),
		failing:  make(map[string]error),
		calls:    make(map[string]int),
	}
}

// fail makes a method fail with err, or work again with nil; "" means all.
func (m *memoryStore) fail(method string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing[method] = err
}

// do runs one transaction.
func (m *memoryStore) do(ctx context.Context, method string, change func() error, records ...site.Record) error {
	m.entered(method)
	defer m.left(method)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[method]++
	if _, bounded := ctx.Deadline(); !bounded && method != "LoadAccess" {
		return errors.New("a call of the store without a deadline")
	}
	if err := cmp.Or(ctx.Err(), m.failing[""], m.failing[method]); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	m.records = append(m.records, records...)
	return nil
}

// gone is what the real store says of a row that is not there.
func gone() error { return fault.New(fault.NotFound, "not there") }

func (m *memoryStore) LoadAccess(ctx context.Context) (all site.Access, err error) {
	err = m.do(ctx, "LoadAccess", func() error {
		all = site.Access{
			Accounts: slices.Collect(maps.Values(m.accounts)), Sessions: slices.Collect(maps.Values(m.sessions)),
			Devices: slices.Collect(maps.Values(m.known)), Tokens: slices.Collect(maps.Values(m.tokens)),
			Grants: slices.Collect(maps.Values(m.grants)), Groups: slices.Collect(maps.Values(m.groups)),
			Holidays: slices.Collect(maps.Values(m.holidays)),
		}
		return nil
	})
	return all, err
}

// Amend is one transaction, named by its last amendment.
func (m *memoryStore) Amend(ctx context.Context, _ func() error, all []site.Amendment) error {
	records := make([]site.Record, len(all))
	for i, a := range all {
		records[i] = a.Record
	}
	return m.do(ctx, methodOf(all[len(all)-1]), func() error {
		for _, a := range all {
			if err := m.failing[methodOf(a)]; err != nil {
				return err
			}
			if err := m.amend(a); err != nil {
				return err
			}
		}
		return nil
	}, records...)
}

func methodOf(a site.Amendment) string {
	switch {
	case a.AddAccount != nil:
		return "AddAccount"
	case a.UpdateAccount != nil:
		return "UpdateAccount"
	case a.DropPassword != "":
		return "DropPassword"
	case a.RemoveAccount != "":
		return "RemoveAccount"
	case a.PutGrant != nil:
		return "PutGrant"
	case a.NarrowGrant != nil:
		return "NarrowGrant"
	case a.RemoveGrant != nil:
		return "RemoveGrant"
	case len(a.EndSessions) > 0:
		return "EndSessions"
	case a.AddMember != nil:
		return "AddMember"
	case a.AddGroup != nil, a.RemoveGroup != "", a.RemoveMember != nil, a.PutHoliday != nil, a.AddDates != nil, a.RemoveHoliday != "":
		return "Groups"
	case a.AddToken != nil:
		return "AddToken"
	case a.RemoveToken != "":
		return "RemoveToken"
	}
	return "RemoveStation"
}

func (m *memoryStore) amend(a site.Amendment) error {
	switch {
	case a.AddAccount != nil:
		return m.addAccount(*a.AddAccount)
	case a.UpdateAccount != nil:
		return m.updateAccount(*a.UpdateAccount)
	case a.DropPassword != "":
		account := m.accounts[a.DropPassword]
		account.Password = ""
		m.accounts[account.ID] = account
		return nil
	case a.RemoveAccount != "":
		return m.removeAccount(a.RemoveAccount)
	case a.PutGrant != nil:
		return m.putGrant(*a.PutGrant)
	case a.NarrowGrant != nil:
		if g, ok := m.grants[a.NarrowGrant.Key()]; ok {
			g.Terms = g.Meet(a.NarrowGrant.Terms)
			m.grants[g.Key()] = g
		}
		return nil
	case a.RemoveGrant != nil:
		return m.removeGrant(*a.RemoveGrant)
	case a.AddToken != nil:
		m.tokens[a.AddToken.ID] = *a.AddToken
		return nil
	case a.RemoveToken != "":
		if _, ok := m.tokens[a.RemoveToken]; !ok {
			return gone()
		}
		delete(m.tokens, a.RemoveToken)
		return nil
	}
	return m.amendSchedule(a)
}

func (m *memoryStore) amendSchedule(a site.Amendment) error {
	switch {
	case len(a.EndSessions) > 0:
		for _, id := range a.EndSessions {
			delete(m.sessions, id)
		}
	case a.RemoveStation != 0:
		maps.DeleteFunc(m.grants, func(k site.GrantKey, _ site.Grant) bool { return k.Station == a.RemoveStation })
		m.leave(site.Member{Station: a.RemoveStation})
	case a.AddGroup != nil:
		m.groups[a.AddGroup.Name] = site.Group{Name: a.AddGroup.Name, Kind: a.AddGroup.Kind}
	case a.RemoveGroup != "":
		delete(m.groups, a.RemoveGroup)
		maps.DeleteFunc(m.grants, func(k site.GrantKey, _ site.Grant) bool {
			return k.AccountGroup == a.RemoveGroup || k.StationGroup == a.RemoveGroup
		})
	case a.AddMember != nil:
		g := m.groups[a.AddMember.Group]
		g.Members = append(g.Members, *a.AddMember)
		m.groups[g.Name] = g
	case a.RemoveMember != nil:
		m.leave(*a.RemoveMember)
	case a.PutHoliday != nil:
		m.holidays[a.PutHoliday.Name] = *a.PutHoliday
	case a.AddDates != nil:
		h := *a.AddDates
		h.Dates = site.JoinDates(m.holidays[h.Name].Dates, h.Dates)
		m.holidays[h.Name] = h
	case a.RemoveHoliday != "":
		delete(m.holidays, a.RemoveHoliday)
	}
	return nil
}

// leave removes an account or a station from a group, from all where it names none.
func (m *memoryStore) leave(member site.Member) {
	for name, g := range m.groups {
		if member.Group == "" || member.Group == name {
			g.Members = slices.DeleteFunc(g.Members, func(m site.Member) bool { return m.Account == member.Account && m.Station == member.Station })
			m.groups[name] = g
		}
	}
}

func (m *memoryStore) addAccount(account site.Account) error {
	for _, a := range m.accounts {
		if a.Email == account.Email {
			return fault.New(fault.Conflict, "taken")
		}
	}
	m.accounts[account.ID] = account
	return nil
}

func (m *memoryStore) updateAccount(account site.Account) error {
	old, ok := m.accounts[account.ID]
	if !ok {
		return gone()
	}
	account.Password = cmp.Or(account.Password, old.Password)
	m.accounts[account.ID] = account
	return nil
}

func (m *memoryStore) removeAccount(account site.AccountID) error {
	delete(m.accounts, account)
	maps.DeleteFunc(m.sessions, func(_ site.SessionID, s site.Session) bool { return s.Account == account })
	maps.DeleteFunc(m.grants, func(k site.GrantKey, _ site.Grant) bool { return k.Account == account })
	m.leave(site.Member{Account: account})
	maps.DeleteFunc(m.known, func(k deviceKey, _ site.LoginDevice) bool { return k.account == account })
	return nil
}

func (m *memoryStore) putGrant(grant site.Grant) error {
	if _, ok := m.accounts[grant.Account]; !ok && grant.AccountGroup == "" || grant.Station > 9999 {
		return gone() // stations up to 9999 are taken to exist
	}
	m.grants[grant.Key()] = grant
	return nil
}

func (m *memoryStore) removeGrant(key site.GrantKey) error {
	delete(m.grants, key)
	return nil
}

func (m *memoryStore) UpgradePassword(ctx context.Context, account site.AccountID, from, to site.Secret) error {
	return m.do(ctx, "UpgradePassword", func() error {
		a, ok := m.accounts[account]
		if !ok || a.Password != from {
			return gone()
		}
		a.Password = to
		m.accounts[account] = a
		return nil
	})
}

func (m *memoryStore) AddSession(ctx context.Context, session site.Session, device [32]byte, rec site.Record) error {
	return m.do(ctx, "AddSession", func() error {
		if _, ok := m.accounts[session.Account]; !ok {
			return gone()
		}
		m.sessions[session.ID] = session
		if device == [32]byte{} {
			return nil
		}
		m.known[deviceKey{session.Account, device}] = site.LoginDevice{Account: session.Account, Sum: device, Until: session.Expires.Time}
		return nil
	}, rec)
}

func (m *memoryStore) RebaseSessions(ctx context.Context, expires map[site.SessionID]time.Time) error {
	return m.do(ctx, "RebaseSessions", func() error {
		for id, at := range expires {
			if s, ok := m.sessions[id]; ok {
				for key, k := range m.known {
					if k.Account == s.Account && k.Until.Equal(s.Expires.Time) {
						k.Until = at
						m.known[key] = k
					}
				}
				s.Expires, s.ClockTrusted = site.At(at), true
				m.sessions[id] = s
			}
		}
		return nil
	})
}

func (m *memoryStore) DropExpired(ctx context.Context, now time.Time, uses site.Uses) error {
	return m.do(ctx, "DropExpired", func() error {
		for id, at := range uses.Tokens {
			if t, ok := m.tokens[id]; ok {
				t.Used = site.At(at)
				m.tokens[id] = t
			}
		}
		for id, at := range uses.Sessions {
			if s, ok := m.sessions[id]; ok {
				s.Used = site.At(at)
				m.sessions[id] = s
			}
		}
		maps.DeleteFunc(m.sessions, func(_ site.SessionID, s site.Session) bool { return !now.Before(s.Expires.Time) })
		maps.DeleteFunc(m.known, func(_ deviceKey, k site.LoginDevice) bool { return !now.Before(k.Until) })
		return nil
	})
}

func (m *memoryStore) AppendRecord(ctx context.Context, rec site.Record) error {
	return m.do(ctx, "AppendRecord", func() error { return nil }, rec)
}

// of returns the records of these kinds.
func (m *memoryStore) of(kinds ...site.Kind) []site.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.records), func(r site.Record) bool { return !slices.Contains(kinds, r.Kind) })
}

// called says how often a method was called.
func (m *memoryStore) called(method string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[method]
}

// kept returns the ids of the stored sessions, sorted.
func (m *memoryStore) kept() []site.SessionID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.sessions))
}

// granted counts the stored grants.
func (m *memoryStore) granted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.grants)
}

// manualClock is a site.Clock that goes when it is told to.
type manualClock struct {
	mu      sync.Mutex // guards both
	now     time.Time
	trusted bool
}

func newClock() *manualClock {
	return &manualClock{now: time.Date(2026, 11, 21, 7, 0, 0, 250e6, time.UTC), trusted: true}
}

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) Trusted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trusted
}

// advance moves the clock forward.
func (c *manualClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// trust sets whether the clock is trusted.
func (c *manualClock) trust(trusted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trusted = trusted
}

// processClock is the clock of the process, which testing/synctest moves.
type processClock struct{}

func (processClock) Now() time.Time { return time.Now() }
func (processClock) Trusted() bool  { return true }
