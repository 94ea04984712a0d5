package access

import (
	"context"
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"gatehouse/internal/access/throttle"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// What logins are allowed.
const (
	// accountBurst and accountEvery bound the failures of one account at one address.
	accountBurst, accountEvery = 10, 30 * time.Second
	// addressBurst and addressEvery bound the failures of one address.
	addressBurst, addressEvery = 30, 6 * time.Second
	// wider is how many times as many failures the bounds over several addresses allow:
	// one account from all addresses that are not known for it, and one IPv6 network.
	// The contract promises that fewer than 64 others keep no new address out.
	wider = 64
	// loginBurst and loginEvery bound the logins of one account that succeed, because
	// each is a record in the journal.
	loginBurst, loginEvery = 600, 5 * time.Second
	// trustedBurst and trustedEvery pace the attempts of a trusted client whose
	// failures are used up: so many may wait at once, and one starts after each
	// interval.
	trustedBurst, trustedEvery = 40, 100 * time.Millisecond
)

// attempt is one login, as the throttle and the queue see it.
type attempt struct {
	email   site.Email // empty for a text that is no address
	account [32]byte   // the address, hashed: whether it has an account makes no difference
	choice  uint64     // a secret number of the e-mail address
	remote  netip.Addr // the whole address of the client, with its zone
	lane    lane       // laneStranger unless the client is trusted
}

// newAttempt reads who wants to log in. A malformed address is an attempt like
// every other.
func (s *Service) newAttempt(email string, remote netip.Addr) attempt {
	a := attempt{remote: remote.Unmap()}
	parsed, err := site.ParseEmail(email)
	if err == nil {
		a.email, email = parsed, string(parsed)
	}
	a.account = accountKey(email)
	a.choice = s.hashing.choice(email)
	switch {
	case s.dir.knows(a.email, a.remote, s.clock.Now()):
		a.lane = laneKnown
	case a.remote.IsLoopback():
		a.lane = laneLoopback
	}
	return a
}

// accountKey names an account, or what might be one, in the tables of the throttle.
func accountKey(email string) [32]byte { return sha256.Sum256([]byte(email)) }

// trusted reports whether failures of others must not keep the client out.
func (a attempt) trusted() bool { return a.lane != laneStranger }

// pair is the key of what is counted for one account at one address.
func (a attempt) pair() party { return party{a.account, a.remote} }

// path returns the attempt's position in the queue, and how many of its smallest share
// may wait there. Trusted clients share by account, so that one account's logins delay
// no other's; strangers by network, because they may name any account.
func (a attempt) path() (at path, room int) {
	if a.trusted() {
		account := share{lane: a.lane, account: a.account}
		return path{{lane: a.lane}, account, {lane: a.lane, account: a.account, client: a.remote.String()}}, maxTrusted
	}
	network := share{lane: a.lane, client: throttle.Network(a.remote).String()}
	return path{{lane: a.lane}, network, {lane: a.lane, client: a.remote.String() + "/"}}, maxStranger
}

// party is an account at a client address.
type party struct {
	account [32]byte
	client  netip.Addr
}

// attempts bounds failed logins, by the rules of the contract, section 1. Failures are
// counted for an account at an address first, then for the address. A client that is
// trusted (known for the account, or on this machine) is not refused before its
// password has been compared; the others are, and have wider bounds behind those for
// the account from all their addresses, and for an IPv6 network. Safe for concurrent
// use.
type attempts struct {
	mu       sync.Mutex // mu guards the tables
	pairs    *throttle.Buckets[party]
	clients  *throttle.Buckets[netip.Addr]
	networks *throttle.Buckets[netip.Addr]
	accounts *throttle.Buckets[[32]byte] // from addresses that are not trusted
	trusted  *throttle.Buckets[party]    // attempts beyond the bounds
	logins   *throttle.Buckets[[32]byte] // that succeeded
}

func newAttempts(accountFailures, addressFailures int) *attempts {
	return &attempts{
		pairs:    throttle.New[party](accountFailures, accountEvery),
		clients:  throttle.New[netip.Addr](addressFailures, addressEvery),
		networks: throttle.New[netip.Addr](wider*addressFailures, addressEvery/wider),
		accounts: throttle.New[[32]byte](wider*accountFailures, accountEvery/wider),
		trusted:  throttle.New[party](trustedBurst, trustedEvery),
		logins:   throttle.New[[32]byte](loginBurst, loginEvery),
	}
}

// admit returns Throttled, with the time to wait, for an attempt that is not allowed.
// For one that is allowed it returns how long that has to wait for its turn.
func (t *attempts) admit(a attempt, now time.Time) (pause time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait := t.logins.Wait(a.account, now); wait > 0 {
		return 0, tooMany("Too many logins; try again later", wait)
	}
	wait := t.wait(a, now)
	switch {
	case wait == 0:
		return 0, nil
	case !a.trusted():
		return 0, tooMany(failedTooOften, wait)
	}
	if wait := t.trusted.Wait(a.pair(), now); wait > 0 {
		return 0, tooMany(failedTooOften, wait)
	}
	pause = t.trusted.Lag(a.pair(), now)
	t.trusted.Take(a.pair(), now)
	return pause, nil
}

const failedTooOften = "Too many failed logins; try again later"

func tooMany(sentence string, wait time.Duration) error { return fault.Throttle(sentence, wait) }

// wait returns how long it takes until a may fail once more. The caller holds mu.
func (t *attempts) wait(a attempt, now time.Time) time.Duration {
	wait := max(t.pairs.Wait(a.pair(), now), t.clients.Wait(a.remote, now))
	if !a.trusted() {
		wait = max(wait, t.networks.Wait(throttle.Network(a.remote), now), t.accounts.Wait(a.account, now))
	}
	return wait
}

// charge counts an attempt as failed before its password is compared, so that attempts
// at the same time cannot exceed the bounds. Beyond the bounds it counts nothing and
// returns the error for a failure; a stranger's password is then not compared.
func (t *attempts) charge(a attempt, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait := t.wait(a, now); wait > 0 {
		return tooMany(failedTooOften, wait)
	}
	t.pairs.Take(a.pair(), now)
	t.clients.Take(a.remote, now)
	if !a.trusted() {
		t.networks.Take(throttle.Network(a.remote), now)
		t.accounts.Take(a.account, now)
	}
	return nil
}

// succeed counts a login that has succeeded. It refunds the charge, if there was one,
// and forgets the failures of the account at this address. Those of the address stay:
// one good login must not pay for guessing at other accounts.
func (t *attempts) succeed(a attempt, charged bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logins.Take(a.account, now)
	t.pairs.Forget(a.pair())
	if !charged {
		return
	}
	t.clients.Refund(a.remote)
	if !a.trusted() {
		t.networks.Refund(throttle.Network(a.remote))
		t.accounts.Refund(a.account)
	}
}

// clear forgets every count of an account, and of the addresses from which it was
// tried: an administrator has set its password.
func (t *attempts) clear(account [32]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.accounts.Forget(account)
	t.logins.Forget(account)
	t.trusted.ForgetFunc(func(p party) bool { return p.account == account })
	t.pairs.ForgetFunc(func(p party) bool {
		if p.account != account {
			return false
		}
		t.clients.Forget(p.client)
		t.networks.Forget(throttle.Network(p.client))
		return true
	})
}

// pause waits for d; Unavailable when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return unavailable("waiting to compare a password", ctx.Err())
	}
}
