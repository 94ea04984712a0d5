package limit

import "sync"

// Quota bounds how much of something is open at once, in all and by holder. Safe for
// concurrent use.
type Quota[K comparable] struct {
	total, each int

	mu   sync.Mutex // mu guards what follows
	open int
	by   map[K]int
}

// NewQuota returns a quota of total, of which one holder has at most each.
func NewQuota[K comparable](total, each int) *Quota[K] {
	return &Quota[K]{total: total, each: each, by: make(map[K]int)}
}

// Enter counts one in for a holder, and reports whether there was room.
func (q *Quota[K]) Enter(holder K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open >= q.total || q.by[holder] >= q.each {
		return false
	}
	q.open++
	q.by[holder]++
	return true
}

// Leave counts one out that Enter counted in.
func (q *Quota[K]) Leave(holder K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open--
	if q.by[holder]--; q.by[holder] == 0 {
		delete(q.by, holder)
	}
}

// Open returns how many are open.
func (q *Quota[K]) Open() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open
}
