package access

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// errCredentials is the answer to every login with a wrong e-mail address or
// password (specification, "Errors").
var errCredentials = fault.New(fault.Unauthenticated, "Invalid credentials")

// Client is what a login knows of its client.
type Client struct {
	Remote netip.Addr  // its whole address
	Device site.Secret // as an earlier login has returned it; anything else counts as none
	Name   string      // the browser or app, such as "Firefox on Android"; may be empty
}

// Tokens are the result of a login.
type Tokens struct {
	Access  site.Secret // a JWT; see [Service.Authenticate]
	Refresh site.Secret // a version 4 UUID; see [Service.Refresh]
	Cookie  site.Secret // a browser keeps it instead; see [Service.AuthenticateCookie]
	Device  site.Secret // the client shows it at its next login, for as long as a session lives
}

// Login opens a session for a client that knows an account's password. Unauthenticated
// when the e-mail address or the password is wrong, without showing which; Throttled after
// too many failures (see [attempts]), and when too many logins wait already; Unavailable
// when the session cannot be stored, or ctx ends.
func (s *Service) Login(ctx context.Context, email string, password site.Secret, from Client) (Tokens, error) {
	a := s.newAttempt(email, from)
	who, err := s.prove(ctx, a, password)
	if err == nil {
		var tokens Tokens
		if tokens, err = s.open(ctx, who, a); err == nil {
			return tokens, nil
		}
	}
	s.failed(ctx, a, err)
	return Tokens{}, err
}

// ConfirmPassword checks the password of an account that has a session already, with the
// bounds, the turns and the record of a failure of [Service.Login]: Forbidden when it is
// wrong, Throttled, Unavailable when ctx ends.
func (s *Service) ConfirmPassword(ctx context.Context, by site.Actor, password site.Secret, from Client) error {
	a := s.newAttempt(string(by.Email), from)
	_, err := s.prove(ctx, a, password)
	s.failed(ctx, a, err)
	if errors.Is(err, errCredentials) {
		return fault.New(fault.Forbidden, "This is not the password of your account")
	}
	return err
}

// failed counts and records an attempt that was refused with err.
func (s *Service) failed(ctx context.Context, a attempt, err error) {
	switch {
	case errors.Is(err, errCredentials):
		s.metrics.Refused("login-invalid")
		s.recordFailure(ctx, a)
	case fault.Is(err, fault.Throttled):
		s.metrics.Refused("login-throttled")
	}
}

// proof is an account whose password was shown.
type proof struct {
	account  site.AccountID
	stored   site.Secret // the hash that the password is compared with; empty without an account
	params   Params      // the cost of comparing it without an account
	proofs   int         // as the account had it then
	upgraded site.Secret // its hash by the present parameters; empty when that is stored
}

// prove compares the password. It asks the throttle before waiting for a slot, so that
// a flood costs nothing, and again with the slot, because the attempts before it in the
// queue have failed meanwhile. The work is the same for every e-mail address: an unknown
// one is compared with a hash that matches nothing.
func (s *Service) prove(ctx context.Context, a attempt, password site.Secret) (proof, error) {
	if err := s.attempts.admit(a, s.clock.Now()); err != nil {
		return proof{}, err
	}
	leave, err := s.hashing.enter(ctx, a.path())
	if err != nil {
		return proof{}, err
	}
	defer leave()
	if err := s.attempts.charge(a, s.clock.Now()); err != nil {
		return proof{}, err
	}
	who := s.dir.toProve(a)
	outdated, matches := s.hashing.verify(who.stored, who.params, password)
	if !matches {
		return proof{}, errCredentials
	}
	s.attempts.succeed(a, s.clock.Now())
	if outdated {
		who.upgraded = s.hashing.hash(password)
	}
	return who, nil
}

// open opens a session of a proven account. If the account was removed, its password was set or
// every session ended while the session was being stored, the session ends.
func (s *Service) open(ctx context.Context, who proof, a attempt) (Tokens, error) {
	account, ok := s.dir.proven(who)
	if !ok {
		return Tokens{}, errCredentials
	}
	s.upgrade(ctx, who)
	if !a.known() {
		a.device = newDevice()
	}
	refresh, session, err := s.begin(ctx, account, a)
	s.evict(account)
	if _, still := s.dir.proven(who); !still {
		_ = s.Revoke(ctx, site.Actor{Account: account.ID, Session: session.ID}, false) // Run retries it
		return Tokens{}, errCredentials
	}
	if err != nil {
		return Tokens{}, err
	}
	cookie, _ := cookieOf(refresh) // which is well formed
	access, err := s.tokens.sign(session, sidOf(cookie), s.clock.Now())
	if err != nil {
		return Tokens{}, err
	}
	s.log.Info("session opened", "account", account.ID, "session", session.ID, "remote", session.Remote)
	return Tokens{Access: access, Refresh: refresh, Cookie: cookie, Device: a.device.secret}, nil
}

// begin stores a session that begins now and its device, then enters them in memory.
func (s *Service) begin(ctx context.Context, account site.Account, a attempt) (refresh site.Secret, session site.Session, err error) {
	release, err := s.lockSessions(ctx, account.ID)
	if err != nil {
		return "", session, err
	}
	defer release()
	refresh, session = s.newSession(account, a)
	device := site.LoginDevice{Account: account.ID, Sum: a.device.sum, Until: session.Expires.Time}
	if !s.dir.admitsDevice(device, session.Created.Time) {
		device.Sum = [32]byte{}
	}
	rec := site.Record{Kind: site.KindLogin, Facts: site.Facts{
		Origin: site.Local, Account: account.ID, Email: account.Email, Session: session.ID, Remote: session.Remote,
	}}
	err = s.write(ctx, "storing a session", func(ctx context.Context) error {
		return s.store.AddSession(ctx, session, device.Sum, rec)
	})
	if err != nil {
		return "", session, err
	}
	entered := s.dir.addSession(session)
	s.dir.addDevice(device, session.Created.Time)
	now := s.clock.Now()
	if stepped := !session.ClockTrusted && s.clock.Trusted() || now.Before(session.Created.Time); stepped && entered != nil {
		s.dir.rebaseNew(entered, now)
		s.storeSoon()
	}
	return refresh, session, nil
}

// evict ends the oldest sessions of an account that has too many. It leaves the storing to
// [Service.Run], so that no login waits for it.
func (s *Service) evict(account site.Account) {
	oldest := s.dir.excess(account.ID)
	if len(oldest) == 0 {
		return
	}
	rec := site.Record{Kind: site.KindSessionRevoked, Facts: site.Facts{
		Origin: site.Local, Account: account.ID, Email: account.Email, Detail: "the oldest sessions of one network, by a login: the account had too many",
	}}
	_ = s.changes.Foresee(site.Actor{}, s.ending(func(id site.SessionID) bool { return slices.Contains(oldest, id) }, rec, new(int)))
	s.storeSoon()
}

// lockSessions waits for the logins of an account that are being stored, and returns the
// function that lets the next one continue. Unavailable when ctx ends first.
func (s *Service) lockSessions(ctx context.Context, id site.AccountID) (release func(), err error) {
	s.dir.mu.RLock()
	a := s.dir.accounts[id]
	s.dir.mu.RUnlock()
	if a == nil {
		return func() {}, nil
	}
	return amend.Acquire(ctx, a.writing)
}

// newSession returns a session that begins now.
func (s *Service) newSession(account site.Account, a attempt) (site.Secret, site.Session) {
	refresh, sum := newRefresh()
	cookie, _ := cookieOf(refresh)
	trusted := s.clock.Trusted() // before the time: a step in between carries the session
	now := s.clock.Now()
	return refresh, site.Session{
		ID:           idOf(sidOf(cookie)),
		Account:      account.ID,
		Refresh:      sum,
		Created:      site.At(now),
		Expires:      site.At(latestExpiry(now)),
		ClockTrusted: trusted,
		Remote:       remoteText(a.remote),
		Client:       a.name,
		Used:         site.At(now),
	}
}

// upgrade replaces the hash of a proven password by one with the present parameters, if
// the password is still the same. Where that fails, the next login tries again.
func (s *Service) upgrade(ctx context.Context, who proof) {
	if who.upgraded == "" {
		return
	}
	err := s.write(ctx, "storing an upgraded password hash", func(ctx context.Context) error {
		return s.store.UpgradePassword(ctx, who.account, who.stored, who.upgraded)
	})
	if err != nil {
		s.log.Warn("password hash keeps its old parameters", "account", who.account, "error", err)
		return
	}
	s.dir.upgradePassword(who)
}

// toProve returns what a password is to be compared with. For an e-mail address without
// an account that is a hash that matches nothing, with the parameters of a stored one:
// which, is drawn from the address by a secret key, so that addresses without an account
// take the same times as those with one.
func (d *directory) toProve(a attempt) proof {
	d.mu.RLock()
	defer d.mu.RUnlock()
	like := d.costLike(binary.BigEndian.Uint64(a.account[:])) // for both, because it takes time
	if found := d.emails[a.email]; found != nil {
		return proof{account: found.ID, stored: found.password(), proofs: found.proofs}
	}
	return proof{params: like}
}

// costLike returns the cost of one of the stored hashes, the same for the same choice
// while they stay; zero where there is none. The caller holds mu.
func (d *directory) costLike(choice uint64) Params {
	if len(d.accounts) == 0 {
		return Params{}
	}
	ids := slices.Sorted(maps.Keys(d.accounts))
	return d.accounts[ids[choice%uint64(len(ids))]].cost
}

// proven returns the account, unless it was removed or the logins in flight were voided since
// the proof.
func (d *directory) proven(who proof) (site.Account, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.accounts[who.account]
	if a == nil || a.proofs != who.proofs {
		return site.Account{}, false
	}
	return a.copied()
}
