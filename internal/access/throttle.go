package access

import (
	"net/netip"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/limit"
	"gatehouse/internal/site"
)

// What logins are allowed.
const (
	// accountEvery and addressEvery are how soon an account at one address, and an address,
	// may fail once more.
	accountEvery, addressEvery = 30 * time.Second, 6 * time.Second
	// wider is how many times as many failures the bounds over several addresses allow:
	// one account from all addresses that are not known for it, and one IPv6 network.
	// The contract promises that fewer than 64 others keep no new address out.
	wider = 64
	// loginBurst and loginEvery bound the logins of one account that succeed, because
	// each is a record in the journal.
	loginBurst, loginEvery = 600, 5 * time.Second
	// trustedBurst and trustedEvery bound the attempts of a trusted client whose
	// failures are used up.
	trustedBurst, trustedEvery = 40, 100 * time.Millisecond
)

// attempt is one login, as the throttle and the queue see it.
type attempt struct {
	email   site.Email // empty for a text that is no address
	account [32]byte   // the address, hashed: whether it has an account makes no difference
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
	a.account = s.hashing.accountKey(email)
	switch {
	case s.dir.knows(a.email, a.remote, s.clock.Now()):
		a.lane = laneKnown
	case a.remote.IsLoopback():
		a.lane = laneLoopback
	}
	return a
}

// trusted reports whether failures of others must not keep the client out.
func (a attempt) trusted() bool { return a.lane != laneStranger }

// path returns the attempt's position in the queue. Trusted clients have turns by account,
// so that one account's logins delay no other's; strangers by network, because they may
// name any account.
func (a attempt) path() path {
	if a.trusted() {
		account := flow{lane: a.lane, account: a.account}
		return path{{lane: a.lane}, account, {lane: a.lane, account: a.account, client: a.remote.String()}}
	}
	network := flow{lane: a.lane, client: limit.Network(a.remote).String()}
	return path{{lane: a.lane}, network, {lane: a.lane, client: a.remote.String()}}
}

// party is whose failures are counted: an account at a client address, or one of the two
// with the other zero.
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
	pairs    *limit.Buckets[party]
	clients  *limit.Buckets[party]
	networks *limit.Buckets[party]
	accounts *limit.Buckets[party] // from addresses that are not trusted
	trusted  *limit.Buckets[party] // attempts of trusted clients beyond the bounds
	logins   *limit.Buckets[party] // of an account, that succeeded
}

func newAttempts(accountFailures, addressFailures int) *attempts {
	return &attempts{
		pairs:    limit.NewBuckets[party](accountFailures, accountEvery),
		clients:  limit.NewBuckets[party](addressFailures, addressEvery),
		networks: limit.NewBuckets[party](wider*addressFailures, addressEvery/wider),
		accounts: limit.NewBuckets[party](wider*accountFailures, accountEvery/wider),
		trusted:  limit.NewBuckets[party](trustedBurst, trustedEvery),
		logins:   limit.NewBuckets[party](loginBurst, loginEvery),
	}
}

// bound is one of the bounds of an attempt.
type bound struct {
	table *limit.Buckets[party]
	key   party
}

// bounds returns those in which the failure of an attempt counts.
func (t *attempts) bounds(a attempt) []bound {
	all := []bound{{t.pairs, party{a.account, a.remote}}, {t.clients, party{client: a.remote}}}
	if !a.trusted() {
		all = append(all, bound{t.networks, networkOf(a.remote)}, bound{t.accounts, party{account: a.account}})
	}
	return all
}

func networkOf(client netip.Addr) party { return party{client: limit.Network(client)} }

// admit returns Throttled, with the time to wait, for an attempt that is not allowed.
func (t *attempts) admit(a attempt, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait := t.logins.Wait(party{account: a.account}, now); wait > 0 {
		return fault.Throttle("Too many logins; try again later", wait)
	}
	wait := t.wait(a, now)
	if wait > 0 && a.trusted() {
		key := party{a.account, a.remote}
		if wait = t.trusted.Wait(key, now); wait == 0 {
			t.trusted.Take(key, now)
		}
	}
	return failedTooOften(wait)
}

// failedTooOften returns Throttled where there is a time to wait.
func failedTooOften(wait time.Duration) error {
	if wait == 0 {
		return nil
	}
	return fault.Throttle("Too many failed logins; try again later", wait)
}

// wait returns how long it takes until a may fail once more. The caller holds mu.
func (t *attempts) wait(a attempt, now time.Time) (wait time.Duration) {
	for _, b := range t.bounds(a) {
		wait = max(wait, b.table.Wait(b.key, now))
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
		return failedTooOften(wait)
	}
	for _, b := range t.bounds(a) {
		b.table.Take(b.key, now)
	}
	return nil
}

// succeed counts a login that has succeeded. It refunds the charge, if there was one,
// and forgets the failures of the account at this address. Those of the address stay:
// one good login must not pay for guessing at other accounts.
func (t *attempts) succeed(a attempt, charged bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logins.Take(party{account: a.account}, now)
	if charged {
		for _, b := range t.bounds(a) {
			b.table.Refund(b.key)
		}
	}
	t.pairs.Forget(party{a.account, a.remote})
}

// clear forgets every count of an account, and of the addresses from which it was
// tried: an administrator has set its password.
func (t *attempts) clear(account [32]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.accounts.Forget(party{account: account})
	t.logins.Forget(party{account: account})
	t.trusted.ForgetFunc(func(p party) bool { return p.account == account })
	t.pairs.ForgetFunc(func(p party) bool {
		if p.account != account {
			return false
		}
		t.clients.Forget(party{client: p.client})
		t.networks.Forget(networkOf(p.client))
		return true
	})
}
