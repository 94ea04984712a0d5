package access_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// state is how a session of the model stands.
type state int

const (
	live   state = iota
	ending       // dead, and the store does not know yet
	over
)

// modelToken is an access token and when it must be dead.
type modelToken struct {
	text    site.Secret
	expires time.Time
}

// modelSession is what the model knows of a session.
type modelSession struct {
	account string
	state   state
	trusted bool
	expires time.Time
	refresh site.Secret
	access  []modelToken
	issued  map[site.Secret]bool // its access tokens
}

// model decides by the contract's words alone which tokens live.
type model struct {
	*house
	failing  bool // whether storage fails
	accounts map[string]bool
	sessions []*modelSession
}

// TestService_model runs random sequences of everything that makes and ends
// tokens, with storage failing, restarts and clocks that step, and compares every
// token with a model after each step.
func TestService_model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{house: open(t), accounts: make(map[string]bool)}
		m.fakeHashing()
		for _, email := range []string{porter, guest} {
			m.add(email)
			m.accounts[email] = true
		}
		t.Repeat(map[string]func(*rapid.T){
			"":               m.check,
			"add":            m.addAccount,
			"remove":         m.removeAccount,
			"login":          m.logIn,
			"login again":    m.logIn,
			"refresh":        m.refreshOne,
			"revoke":         m.revokeOne,
			"revoke all":     m.revokeAll,
			"revoke unsaved": m.revokeUnsaved,
			"revoke by ada":  m.revokeByAdmin,
			"advance":        m.advance,
			"distrust":       func(*rapid.T) { m.clock.trust(false) },
			"step":           m.stepClock,
			"break storage":  func(*rapid.T) { m.setFailing(!m.failing) },
			"flush":          func(*rapid.T) { m.flush() },
			"prune":          func(*rapid.T) { m.Prune(context.Background()) },
			"restart":        m.restartFlushed,
		})
	})
}

func (m *model) setFailing(failing bool) {
	m.failing = failing
	if failing {
		m.store.fail("", errDisk)
	} else {
		m.store.fail("", nil)
	}
}

// expired reports whether a session is over by the clock.
func (m *model) expired(s *modelSession) bool { return !m.clock.Now().Before(s.expires) }

// check compares all that was ever issued.
func (m *model) check(t *rapid.T) {
	count := 0
	for _, s := range m.sessions {
		lives := s.state == live && !m.expired(s)
		if lives {
			count++
		}
		fresh, err := m.Refresh(context.Background(), s.refresh)
		if (err == nil) != lives {
			t.Fatalf("refreshing says %v, the model %v: %+v", err, lives, s)
		}
		if lives {
			m.issue(t, s, fresh)
			m.actor(fresh)
		}
		for _, token := range s.access {
			m.checkToken(t, s, token, lives)
		}
	}
	if m.SessionCount() != count {
		t.Fatalf("%d sessions are counted, the model has %d", m.SessionCount(), count)
	}
}

// issue requires that an access token of s has the right times and is a new one, and
// returns when it expires.
func (m *model) issue(t *rapid.T, s *modelSession, token site.Secret) time.Time {
	claims := decode(t, token)
	now, iat, exp := m.clock.Now().Unix(), int64(claims["iat"].(float64)), int64(claims["exp"].(float64))
	if iat != now || exp != min(iat+3600, s.expires.Unix()) {
		t.Fatalf("at %d a token says iat %d and exp %d", now, iat, exp)
	}
	if s.issued == nil {
		s.issued = make(map[site.Secret]bool)
	}
	if s.issued[token] {
		t.Fatalf("the same token was issued before")
	}
	s.issued[token] = true
	return time.Unix(exp, 0)
}

func (m *model) checkToken(t *rapid.T, s *modelSession, token modelToken, lives bool) {
	inTime := m.clock.Now().Before(token.expires)
	actor, err := m.Authenticate(token.text)
	if (err == nil) != (lives && inTime) {
		t.Fatalf("authenticating says %v, the model %v: %+v", err, lives && inTime, s)
	}
	if err == nil && string(actor.Email) != s.account {
		t.Fatalf("a token of %s is taken for %+v", s.account, actor)
	}
	_, err = m.AuthenticateToRevoke(token.text)
	if want := s.state != over && !m.expired(s) && inTime; (err == nil) != want {
		t.Fatalf("authenticating to revoke says %v, the model %v: %+v", err, want, s)
	}
}

// pick returns one of the sessions.
func (m *model) pick(t *rapid.T) *modelSession {
	if len(m.sessions) == 0 {
		t.Skip("no session yet")
	}
	return rapid.SampledFrom(m.sessions).Draw(t, "session")
}

// pickAccount returns one of the accounts that exist.
func (m *model) pickAccount(t *rapid.T, exists bool) string {
	email := rapid.SampledFrom([]string{porter, guest}).Draw(t, "account")
	if m.accounts[email] != exists {
		t.Skip("not in that state")
	}
	return email
}

func (m *model) addAccount(t *rapid.T) {
	email := m.pickAccount(t, false)
	_, err := m.AddAccount(context.Background(), admin(), email, right, false)
	m.outcome(t, err)
	m.accounts[email] = err == nil
	m.changed()
}

func (m *model) logIn(t *rapid.T) {
	email := m.pickAccount(t, true)
	tokens, err := m.Login(context.Background(), email, right, at(address(1)))
	m.outcome(t, err)
	if err != nil {
		return
	}
	now := m.clock.Now()
	s := &modelSession{
		account: email, trusted: m.clock.Trusted(), expires: now.Add(30 * 24 * time.Hour),
		refresh: tokens.Refresh,
	}
	s.access = []modelToken{{tokens.Access, m.issue(t, s, tokens.Access)}}
	m.sessions = append(m.sessions, s)
}

// outcome requires success, or Unavailable while storage fails.
func (m *model) outcome(t *rapid.T, err error) {
	if m.failing != fault.Is(err, fault.Unavailable) || (!m.failing && err != nil) {
		t.Fatalf("storage fails: %v, the error is %v", m.failing, err)
	}
}

func (m *model) refreshOne(t *rapid.T) {
	s := m.pick(t)
	fresh, err := m.Refresh(context.Background(), s.refresh)
	if err != nil {
		return
	}
	expires := m.issue(t, s, fresh)
	if len(s.access) <= 3 {
		s.access = append(s.access, modelToken{fresh, expires})
	}
}

// end is what the model expects of an end of sessions.
func (m *model) end(which func(*modelSession) bool) {
	for _, s := range m.sessions {
		switch {
		case s.state == over || m.expired(s) || !which(s):
		case m.failing:
			s.state = ending
		default:
			s.state = over
		}
	}
}

func (m *model) revokeOne(t *rapid.T) {
	s := m.pick(t)
	known := s.state != over && !m.expired(s)
	err := m.RevokeByRefresh(context.Background(), s.refresh)
	if !known {
		m.refused(err, "Token is invalid")
		return
	}
	m.outcome(t, err)
	m.end(func(other *modelSession) bool { return other == s })
	m.changed()
}

func (m *model) revokeAll(t *rapid.T) {
	s := m.pick(t)
	known := s.state != over && !m.expired(s)
	err := m.RevokeAllByRefresh(context.Background(), s.refresh)
	if !known {
		m.refused(err, "Token is invalid")
		return
	}
	m.outcome(t, err)
	m.end(func(other *modelSession) bool { return other.account == s.account })
	m.changed()
}

// revokeUnsaved ends a session while storage fails for a moment.
func (m *model) revokeUnsaved(t *rapid.T) {
	failing := m.failing
	m.setFailing(true)
	m.revokeOne(t)
	m.setFailing(failing)
}

func (m *model) revokeByAdmin(t *rapid.T) {
	email := m.pickAccount(t, true)
	want := 0
	for _, s := range m.sessions {
		if s.account == email && s.state != over && !m.expired(s) {
			want++
		}
	}
	n, err := m.RevokeAccount(context.Background(), admin(), email)
	if n != want {
		t.Fatalf("%d sessions ended, the model says %d", n, want)
	}
	if want > 0 {
		m.outcome(t, err)
	}
	m.end(func(s *modelSession) bool { return s.account == email })
	m.changed()
}

func (m *model) removeAccount(t *rapid.T) {
	email := m.pickAccount(t, true)
	m.outcome(t, m.RemoveAccount(context.Background(), admin(), email))
	m.accounts[email] = false
	for _, s := range m.sessions {
		if s.account == email {
			s.state = over
		}
	}
	m.changed()
}

// changed is what the model expects after a change: it stores the revocations before it.
func (m *model) changed() {
	for _, s := range m.sessions {
		if s.state == ending && !m.failing {
			s.state = over
		}
	}
}

// span draws a time that may lie on an edge.
func span(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Second, 59 * time.Minute, time.Hour, time.Hour + time.Second, day, 29 * day, 30*day - time.Hour, 30 * day, 400 * day,
	}).Draw(t, "span")
}

func (m *model) advance(t *rapid.T) { m.clock.advance(span(t)) }

func (m *model) stepClock(t *rapid.T) {
	if m.clock.Trusted() {
		t.Skip("the clock is trusted")
	}
	by := span(t)
	before := m.clock.Now()
	m.step(by)
	for _, s := range m.sessions {
		if s.trusted || !before.Before(s.expires) {
			continue
		}
		s.trusted, s.expires = true, s.expires.Add(by)
	}
}

// flush lets Run try again what storage would not take.
func (m *model) flush() {
	m.house.flush()
	m.changed()
}

// restartFlushed restarts once storage has taken everything; what it never took
// cannot outlive the process.
func (m *model) restartFlushed(t *rapid.T) {
	if m.failing {
		t.Skip("storage fails")
	}
	m.flush()
	m.agree()
	m.fakeHashing()
	for _, s := range m.sessions {
		s.issued = nil
	}
}
