package access

import (
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// What failed logins are allowed, per account and per client address.
const (
	accountBurst  = 10
	accountEvery  = 30 * time.Second
	addressBurst  = 30
	addressEvery  = 6 * time.Second
	maxBuckets    = 4096 // in each of the two tables
	addressPrefix = 64   // a client of IPv6 has at least so much for itself
)

// attempt is one login, as the throttle sees it.
type attempt struct {
	email   site.Email // empty for a text that is no address
	account [32]byte   // the address, hashed: known or not makes no difference
	address netip.Addr // IPv6 by its /64
	remote  netip.Addr
}

// newAttempt reads who wants to log in. A malformed address is an attempt like
// every other.
func newAttempt(email string, remote netip.Addr) attempt {
	a := attempt{remote: remote.Unmap()}
	parsed, err := site.ParseEmail(email)
	if err == nil {
		a.email, email = parsed, string(parsed)
	}
	a.account = sha256.Sum256([]byte(email))
	a.address = a.remote
	if a.remote.Is6() {
		prefix, _ := a.remote.Prefix(addressPrefix) // without its zone
		a.address = prefix.Addr()
	}
	return a
}

// throttle bounds failed logins. Safe for concurrent use.
type throttle struct {
	mu        sync.Mutex // guards both tables
	accounts  buckets[[32]byte]
	addresses buckets[netip.Addr]
}

func newThrottle(accountFailures, addressFailures int) *throttle {
	return &throttle{
		accounts:  newBuckets[[32]byte](accountFailures, accountEvery),
		addresses: newBuckets[netip.Addr](addressFailures, addressEvery),
	}
}

// admit reports whether an attempt may be made; Throttled with the time to wait.
func (t *throttle) admit(a attempt, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.check(a, now)
}

// charge is admit that counts the attempt as failed at once, so that attempts
// under way at the same time cannot exceed the bound.
func (t *throttle) charge(a attempt, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.check(a, now); err != nil {
		return err
	}
	t.accounts.charge(a.account, now)
	t.addresses.charge(a.address, now)
	return nil
}

// check is admit for whoever holds mu.
func (t *throttle) check(a attempt, now time.Time) error {
	wait := max(t.accounts.wait(a.account, now), t.addresses.wait(a.address, now))
	if wait > 0 {
		return fault.Throttle("Too many failed logins; try again later", wait)
	}
	return nil
}

// succeed takes the charge back and forgets the failures of the account. Those of
// the address stay: one good login must not pay for guessing at other accounts.
func (t *throttle) succeed(a attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.accounts.full, a.account)
	t.addresses.refund(a.address)
}

// buckets are token buckets, each kept as the time at which it is full again (the
// generic cell rate algorithm). A key without an entry has a full bucket.
type buckets[K comparable] struct {
	burst int
	every time.Duration
	full  map[K]time.Time
}

func newBuckets[K comparable](burst int, every time.Duration) buckets[K] {
	return buckets[K]{burst: burst, every: every, full: make(map[K]time.Time)}
}

// wait says how long it is until the bucket of key holds a token; zero for now.
func (b *buckets[K]) wait(key K, now time.Time) time.Duration {
	room := time.Duration(b.burst-1) * b.every
	return max(b.fullAt(key, now).Sub(now)-room, 0)
}

// charge takes a token.
func (b *buckets[K]) charge(key K, now time.Time) {
	full := b.fullAt(key, now)
	if _, ok := b.full[key]; !ok && len(b.full) >= maxBuckets {
		b.evict()
	}
	b.full[key] = full.Add(b.every)
}

// fullAt says when the bucket of key is full: never before now, and never longer
// from now than it takes to fill, even if the clock went back.
func (b *buckets[K]) fullAt(key K, now time.Time) time.Time {
	full, ok := b.full[key]
	latest := now.Add(time.Duration(b.burst) * b.every)
	switch {
	case !ok || full.Before(now):
		return now
	case full.After(latest):
		return latest
	}
	return full
}

// refund puts a token back.
func (b *buckets[K]) refund(key K) {
	if full, ok := b.full[key]; ok {
		b.full[key] = full.Add(-b.every)
	}
}

// evict forgets the bucket that is full soonest: the one with the fewest recent
// failures, so that a flood of new keys does not free the key under attack.
func (b *buckets[K]) evict() {
	var mildest K
	var soonest time.Time
	for key, full := range b.full {
		if soonest.IsZero() || full.Before(soonest) {
			mildest, soonest = key, full
		}
	}
	delete(b.full, mildest)
}
