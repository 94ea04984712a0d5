package limit

import "time"

// MaxKeys bounds the keys of one table.
const MaxKeys = 4096

// Rate is the size of a token bucket, and how soon it regains a token.
type Rate struct {
	Burst int // tokens, at least 1
	Every time.Duration
}

// Bucket is a token bucket, kept as the time at which it is full again (the generic cell
// rate algorithm). The zero Bucket is full. Not safe for concurrent use.
type Bucket struct{ full time.Time }

// lag returns how long it takes until the bucket is full: never longer than it takes to
// fill an empty one, even if the clock went back.
func (b Bucket) lag(now time.Time, r Rate) time.Duration {
	return min(max(b.full.Sub(now), 0), time.Duration(r.Burst)*r.Every)
}

// Wait returns how long it takes until the bucket holds a token; zero when it holds one
// now.
func (b Bucket) Wait(now time.Time, r Rate) time.Duration {
	return max(b.lag(now, r)-time.Duration(r.Burst-1)*r.Every, 0)
}

// Take takes a token out of the bucket, whether it holds one or not.
func (b *Bucket) Take(now time.Time, r Rate) { b.full = now.Add(b.lag(now, r) + r.Every) }

// Buckets are token buckets of one rate, one for each key; a key without an entry has a
// full bucket. Not safe for concurrent use.
type Buckets[K comparable] struct {
	rate    Rate
	buckets map[K]Bucket
}

// NewBuckets returns buckets that hold burst tokens, at least 1, and regain one after every.
func NewBuckets[K comparable](burst int, every time.Duration) *Buckets[K] {
	return &Buckets[K]{rate: Rate{burst, every}, buckets: make(map[K]Bucket)}
}

// setBack is by how much a clock has to have gone back until a bucket counts from its new
// time: by more than any caller may be late with its own.
const setBack = time.Hour

// Wait returns how long it takes until the bucket of key holds a token; zero when it
// holds one now. An empty bucket never takes longer than that to fill, even if the clock
// was set back.
func (b *Buckets[K]) Wait(key K, now time.Time) time.Duration { return b.WaitFor(key, now, 1) }

// WaitFor is Wait for several tokens, at most as many as a bucket holds.
func (b *Buckets[K]) WaitFor(key K, now time.Time, tokens int) time.Duration {
	bucket := b.buckets[key]
	if most := bucket.lag(now, b.rate); bucket.full.Sub(now) > most+b.rate.Every+setBack {
		bucket.full = now.Add(most)
		b.buckets[key] = bucket
	}
	return max(bucket.lag(now, b.rate)-time.Duration(b.rate.Burst-tokens)*b.rate.Every, 0)
}

// Take takes a token out of the bucket of key. A table that is full forgets another
// key first.
func (b *Buckets[K]) Take(key K, now time.Time) {
	bucket, ok := b.buckets[key]
	if !ok && len(b.buckets) >= MaxKeys {
		b.evict()
	}
	bucket.Take(now, b.rate)
	b.buckets[key] = bucket
}

// Refund returns a token to the bucket of key.
func (b *Buckets[K]) Refund(key K) {
	if bucket, ok := b.buckets[key]; ok {
		b.buckets[key] = Bucket{bucket.full.Add(-b.rate.Every)}
	}
}

// Forget fills the bucket of key.
func (b *Buckets[K]) Forget(key K) { delete(b.buckets, key) }

// ForgetFunc fills the buckets of all keys for which which returns true.
func (b *Buckets[K]) ForgetFunc(which func(K) bool) {
	for key := range b.buckets {
		if which(key) {
			delete(b.buckets, key)
		}
	}
}

// evict forgets the bucket that is full soonest: the one with the fewest recent takes,
// so that a flood of new keys does not free the key under attack.
func (b *Buckets[K]) evict() {
	var mildest K
	var soonest time.Time
	for key, bucket := range b.buckets {
		if soonest.IsZero() || bucket.full.Before(soonest) {
			mildest, soonest = key, bucket.full
		}
	}
	delete(b.buckets, mildest)
}
