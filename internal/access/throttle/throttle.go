// Package throttle bounds how often something may happen for each of many keys, with
// token buckets in a table of bounded size. It is the gateway's one throttle: packages
// access (logins), setup (setup codes) and unlock (unlocks) keep tables of it with keys
// and figures of their own. It decides nothing and knows no clock.
package throttle

import (
	"net/netip"
	"time"
)

// MaxKeys bounds the keys of one table.
const MaxKeys = 4096

// networkBits is the prefix length of an IPv6 network: a host has at least that much
// for itself, and on a LAN all hosts share it.
const networkBits = 64

// Buckets are token buckets of one size, one for each key. Each is kept as the time at
// which it is full again (the generic cell rate algorithm); a key without an entry has
// a full bucket. Not safe for concurrent use.
type Buckets[K comparable] struct {
	burst int
	every time.Duration
	full  map[K]time.Time
}

// New returns buckets that hold burst tokens, at least 1, and regain one after every.
func New[K comparable](burst int, every time.Duration) *Buckets[K] {
	return &Buckets[K]{burst: burst, every: every, full: make(map[K]time.Time)}
}

// Wait returns how long it takes until the bucket of key holds a token; zero when it
// holds one now.
func (b *Buckets[K]) Wait(key K, now time.Time) time.Duration {
	room := time.Duration(b.burst-1) * b.every
	return max(b.fullAt(key, now).Sub(now)-room, 0)
}

// Lag returns how long it takes until the bucket of key is full: where takers are
// served one per interval, the wait of the next one.
func (b *Buckets[K]) Lag(key K, now time.Time) time.Duration { return b.fullAt(key, now).Sub(now) }

// Take takes a token out of the bucket of key. A table that is full forgets another
// key first.
func (b *Buckets[K]) Take(key K, now time.Time) {
	full := b.fullAt(key, now)
	if _, ok := b.full[key]; !ok && len(b.full) >= MaxKeys {
		b.evict()
	}
	b.full[key] = full.Add(b.every)
}

// Refund returns a token to the bucket of key.
func (b *Buckets[K]) Refund(key K) {
	if full, ok := b.full[key]; ok {
		b.full[key] = full.Add(-b.every)
	}
}

// Forget fills the bucket of key.
func (b *Buckets[K]) Forget(key K) { delete(b.full, key) }

// ForgetFunc fills the buckets of all keys for which which returns true.
func (b *Buckets[K]) ForgetFunc(which func(K) bool) {
	for key := range b.full {
		if which(key) {
			delete(b.full, key)
		}
	}
}

// Len returns the number of keys in the table.
func (b *Buckets[K]) Len() int { return len(b.full) }

// fullAt returns when the bucket of key is full: never before now, and never longer
// from now than it takes to fill, even if the clock went back.
func (b *Buckets[K]) fullAt(key K, now time.Time) time.Time {
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

// evict forgets the bucket that is full soonest: the one with the fewest recent takes,
// so that a flood of new keys does not free the key under attack.
func (b *Buckets[K]) evict() {
	var mildest K
	var soonest time.Time
	for key, full := range b.full {
		if soonest.IsZero() || full.Before(soonest) {
			mildest, soonest = key, full
		}
	}
	delete(b.full, mildest)
}

// Network returns the network of a client address: of IPv6 the /64 with the address's
// zone, of IPv4 the address itself.
func Network(client netip.Addr) netip.Addr {
	if !client.Is6() || client.Is4In6() {
		return client.Unmap()
	}
	prefix, _ := client.Prefix(networkBits) // never fails for IPv6; drops the zone
	return prefix.Addr().WithZone(client.Zone())
}
