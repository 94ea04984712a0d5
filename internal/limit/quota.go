package limit

import "sync"

// Quota bounds what is open at once, by a path of keys: a class first, then ever smaller
// holders within it. A holder without a room of its own may have as many as are left free
// beside it: one alone has half of its class, and n have an (n+1)th each. So there is a place
// for one more while fewer hold a place than there are, and none is ever taken back. Safe for
// concurrent use.
type Quota[K comparable] struct {
	room func(level int, key K) int

	mu   sync.Mutex // mu guards open
	open map[holder[K]]int
}

// holder is a key at a level of the paths. It is within one other holder alone.
type holder[K comparable] struct {
	level int
	key   K
}

// NewQuota returns a quota. room returns how many may be open for a key at a level of the
// paths, 0 for as many as are left free beside them; a class has a room.
func NewQuota[K comparable](room func(level int, key K) int) *Quota[K] {
	return &Quota[K]{room: room, open: make(map[holder[K]]int)}
}

// Enter counts one in for a path, and reports whether there was room.
func (q *Quota[K]) Enter(path ...K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := 0
	for level, key := range path {
		open, room := q.open[holder[K]{level, key}], q.room(level, key)
		if room == 0 {
			room = free
		}
		if open >= room {
			return false
		}
		free = room - open
	}
	for level, key := range path {
		q.open[holder[K]{level, key}]++
	}
	return true
}

// Leave counts one out that Enter counted in.
func (q *Quota[K]) Leave(path ...K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for level, key := range path {
		at := holder[K]{level, key}
		if q.open[at]--; q.open[at] == 0 {
			delete(q.open, at)
		}
	}
}

// Open returns how many are open for a class.
func (q *Quota[K]) Open(class K) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open[holder[K]{0, class}]
}
