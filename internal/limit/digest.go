package limit

import (
	"context"
	"sync"
	"time"

	"gatehouse/internal/site"
)

// Digest decides when refusals, which an outsider can cause without end, get a record: those
// of one key share one a minute, which counts them. Safe for concurrent use.
type Digest[K comparable] struct {
	most  int
	mu    sync.Mutex // mu guards since
	since map[K]*summary
}

// summary is what one key was refused since its last record.
type summary struct {
	next  time.Time // when the next record may be written
	count int
	facts site.Facts // of the last refusal, without those in which they differ
}

// digestEvery is how often one key gets a record.
const digestEvery = time.Minute

// NewDigest returns a digest that counts so many keys apart at a time; the others share the
// entry of the zero key.
func NewDigest[K comparable](most int) *Digest[K] {
	return &Digest[K]{most: most, since: make(map[K]*summary)}
}

// Note counts a refusal, and returns the facts of the record that is due, if one is.
func (d *Digest[K]) Note(key K, facts site.Facts, now time.Time) (due site.Facts, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.since[key]
	if u == nil {
		if len(d.since) >= d.most {
			d.forgetIdle(now)
		}
		if len(d.since) >= d.most {
			key = *new(K)
			facts.Remote = ""
		}
		if u = d.since[key]; u == nil {
			u = &summary{}
			d.since[key] = u
		}
	}
	if u.count > 0 {
		facts = common(u.facts, facts)
	}
	u.facts = facts
	u.count++
	if now.Before(u.next) {
		return site.Facts{}, false
	}
	return u.write(now), true
}

// Due returns the facts of the records of refusals that were held back for a minute, or of
// all that are held back.
func (d *Digest[K]) Due(now time.Time, all bool) (due []site.Facts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgetIdle(now)
	for _, u := range d.since {
		if u.count > 0 && (all || !now.Before(u.next)) {
			due = append(due, u.write(now))
		}
	}
	return due
}

// common returns b without the facts in which a differs.
func common(a, b site.Facts) site.Facts {
	if a.Account != b.Account {
		b.Account, b.Email = "", ""
	}
	if a.Station != b.Station || a.Lock != b.Lock {
		b.Lock = ""
	}
	if a.Station != b.Station {
		b.Station = 0
	}
	if a.JTI != b.JTI {
		b.JTI, b.KeyID, b.By = "", "", ""
	}
	if a.Detail != b.Detail {
		b.Detail = ""
	}
	return b
}

// Run writes the records that are due, once a minute until ctx ends, and then all of them.
func (d *Digest[K]) Run(ctx context.Context, write func(site.Facts)) {
	ticker := time.NewTicker(digestEvery)
	defer ticker.Stop()
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-ticker.C:
		}
		for _, facts := range d.Due(time.Now(), over) {
			write(facts)
		}
	}
}

// forgetIdle drops the entries that hold nothing back. The lock is held.
func (d *Digest[K]) forgetIdle(now time.Time) {
	for key, u := range d.since {
		if u.count == 0 && !now.Before(u.next) {
			delete(d.since, key)
		}
	}
}

// write returns the facts of the record of all refusals since the last one.
func (u *summary) write(now time.Time) site.Facts {
	facts := u.facts
	facts.Count = CountOf(u.count)
	u.count, u.next = 0, now.Add(digestEvery)
	return facts
}

// CountOf is the Count of a record for n things: a single one goes without.
func CountOf(n int) int {
	if n == 1 {
		return 0
	}
	return n
}
