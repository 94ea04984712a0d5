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
	// failureFresh is how long an address that has failed comes after others of its network.
	failureFresh = 10 * time.Minute
	// wider is how many times as many failures an IPv6 network may have as one of its
	// addresses.
	wider = 64
	// loginBurst and loginEvery bound the logins of one account that succeed, because
	// each is a record in the journal.
	loginBurst, loginEvery = 600, 5 * time.Second
	// deviceLoginBurst and deviceLoginEvery bound those of a known device beyond these, so that
	// no other client that has the password uses up its logins.
	deviceLoginBurst, deviceLoginEvery = 5, 5 * time.Minute
)

// attempt is one login, as the throttle and the queue see it.
type attempt struct {
	email   site.Email // empty for a text that is no address
	account [32]byte   // the address, hashed: whether it has an account makes no difference
	remote  netip.Addr // the whole address of the client, with its zone
	device  device     // zero unless it is known for the account
	fresh   bool       // the address has not failed lately, and may fail
	name    string     // of the client, see [Client]
}

// newAttempt reads who wants to log in. A malformed address is an attempt like
// every other. A device whose failures are used up counts as unknown: who has stolen its
// secret takes no more from its owner than that.
func (s *Service) newAttempt(email string, from Client) attempt {
	a := attempt{remote: from.Remote.Unmap(), name: from.Name}
	parsed, err := site.ParseEmail(email)
	if err == nil {
		a.email, email = parsed, string(parsed)
	}
	a.account = s.hashing.accountKey(email)
	now := s.clock.Now()
	if shown, ok := readDevice(from.Device); ok && s.dir.knows(a.email, shown, now) && !s.attempts.spent(a.account, shown, now) {
		a.device = shown
	}
	a.fresh = s.attempts.fresh(a, now)
	return a
}

// known reports whether the client is a device from which the account was logged in to.
func (a attempt) known() bool { return a.device != device{} }

// path returns the attempt's position in the queue. Known devices have turns by account,
// so that one account's logins delay no other's; strangers by network, because they may
// name any account. Within a network the addresses that have not failed lately come from a
// flow of their own: those that have, however many, delay and evict no other.
func (a attempt) path() path {
	if a.known() {
		account := flow{lane: laneDevice, account: a.account}
		return path{{lane: laneDevice}, account, account, {lane: laneDevice, account: a.account, client: string(a.device.sum[:])}}
	}
	network := limit.Network(a.remote).String()
	return path{{}, {client: network}, {client: network, fresh: a.fresh}, {client: a.remote.String(), fresh: a.fresh}}
}

// party is whose failures are counted: an account, a client address or a network, a
// device, or several of these, with the others zero.
type party struct {
	account [32]byte
	client  netip.Addr
	device  [32]byte
}

// attempts bounds failed logins, by the rules of the contract, section 1. Those of a known
// device are counted for it alone, so that no other client uses them up. Those of other clients
// are counted for the account at the client's address first, then for the address, and with
// wider bounds for both in an IPv6 network, half of which is left to addresses that have not
// failed lately. There is no bound for an account over several networks: it would be a weapon.
// Beyond a bound no password is compared. Safe for concurrent use.
type attempts struct {
	spareAccount, spareAddress int // failures that an IPv6 network leaves to such addresses

	mu       sync.Mutex // mu guards the tables
	devices  *limit.Buckets[party]
	pairs    *limit.Buckets[party] // an account at an address
	clients  *limit.Buckets[party]
	accounts *limit.Buckets[party] // an account in a network
	networks *limit.Buckets[party]
	logins   *limit.Buckets[party] // of an account, that succeeded
	failing  *limit.Buckets[party] // a client address: full where it has not failed lately
	further  *limit.Buckets[party] // of a device, that succeeded beyond those of its account
}

func newAttempts(accountFailures, addressFailures int) *attempts {
	return &attempts{
		spareAccount: wider / 2 * accountFailures, spareAddress: wider / 2 * addressFailures,

		devices:  limit.NewBuckets[party](accountFailures, accountEvery),
		pairs:    limit.NewBuckets[party](accountFailures, accountEvery),
		clients:  limit.NewBuckets[party](addressFailures, addressEvery),
		accounts: limit.NewBuckets[party](wider*accountFailures, accountEvery/wider),
		networks: limit.NewBuckets[party](wider*addressFailures, addressEvery/wider),
		logins:   limit.NewBuckets[party](loginBurst, loginEvery),
		failing:  limit.NewBuckets[party](1, failureFresh),
		further:  limit.NewBuckets[party](deviceLoginBurst, deviceLoginEvery),
	}
}

// bound is one of the bounds of an attempt.
type bound struct {
	table *limit.Buckets[party]
	key   party
	spare int // tokens that it leaves to others
}

// bounds returns those in which the failure of an attempt counts.
func (t *attempts) bounds(a attempt, now time.Time) []bound {
	if a.known() {
		return []bound{{t.devices, a.client(), 0}}
	}
	all := []bound{
		{t.pairs, party{account: a.account, client: a.remote}, 0},
		{t.clients, party{client: a.remote}, 0},
	}
	if !a.remote.Is6() {
		return all
	}
	network, spareAccount, spareAddress := limit.Network(a.remote), 0, 0
	if t.failing.Wait(party{client: a.remote}, now) > 0 {
		spareAccount, spareAddress = t.spareAccount, t.spareAddress
	}
	return append(all,
		bound{t.accounts, party{account: a.account, client: network}, spareAccount},
		bound{t.networks, party{client: network}, spareAddress})
}

// client returns the device of an attempt, as it is known for the account.
func (a attempt) client() party { return party{account: a.account, device: a.device.sum} }

// fresh reports whether an attempt is allowed, from an address that has not failed lately.
func (t *attempts) fresh(a attempt, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failing.Wait(party{client: a.remote}, now) == 0 && t.allow(a, now) == nil
}

// spent reports whether the failures of a device of an account are used up.
func (t *attempts) spent(account [32]byte, d device, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.devices.Wait(party{account: account, device: d.sum}, now) > 0
}

// admit returns Throttled, with the time to wait, for an attempt that is not allowed.
func (t *attempts) admit(a attempt, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.allow(a, now)
}

// allow is admit. The caller holds mu.
func (t *attempts) allow(a attempt, now time.Time) error {
	wait := t.logins.Wait(party{account: a.account}, now)
	if wait > 0 && (!a.known() || t.further.Wait(a.client(), now) > 0) {
		return fault.Throttle("Too many logins; try again later", wait)
	}
	return t.check(a, now)
}

// check returns Throttled for an attempt that may not fail once more. The caller holds mu.
func (t *attempts) check(a attempt, now time.Time) error {
	var wait time.Duration
	for _, b := range t.bounds(a, now) {
		wait = max(wait, b.table.WaitFor(b.key, now, b.spare+1))
	}
	if wait == 0 {
		return nil
	}
	return fault.Throttle("Too many failed logins; try again later", wait)
}

// charge counts an attempt as failed before its password is compared, so that attempts
// at the same time cannot exceed the bounds. Beyond the bounds it counts nothing and
// returns Throttled.
func (t *attempts) charge(a attempt, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.check(a, now); err != nil {
		return err
	}
	for _, b := range t.bounds(a, now) {
		b.table.Take(b.key, now)
	}
	if !a.known() {
		t.failing.Take(party{client: a.remote}, now)
	}
	return nil
}

// succeed counts a login that has succeeded. It refunds the charge and forgets the
// failures of the device, or of the account at this address. Those of the address stay:
// one good login must not pay for guessing at other accounts.
func (t *attempts) succeed(a attempt, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if account := (party{account: a.account}); a.known() && t.logins.Wait(account, now) > 0 {
		t.further.Take(a.client(), now)
	} else {
		t.logins.Take(account, now)
	}
	all := t.bounds(a, now)
	for _, b := range all {
		b.table.Refund(b.key)
	}
	if !a.known() {
		t.failing.Refund(party{client: a.remote})
	}
	all[0].table.Forget(all[0].key)
}

// clear forgets every count of an account, and of the addresses from which it was
// tried: an administrator has set its password.
func (t *attempts) clear(account [32]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := func(p party) bool { return p.account == account }
	t.logins.Forget(party{account: account})
	t.devices.ForgetFunc(of)
	t.further.ForgetFunc(of)
	t.accounts.ForgetFunc(of)
	t.pairs.ForgetFunc(func(p party) bool {
		if !of(p) {
			return false
		}
		t.clients.Forget(party{client: p.client})
		t.failing.Forget(party{client: p.client})
		t.networks.Forget(party{client: limit.Network(p.client)})
		return true
	})
}
