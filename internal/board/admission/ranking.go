package admission

// list is a doubly linked list whose elements hold their own links, so that moving
// one takes no memory. The zero list is empty.
type list[T any] struct{ first, last *element[T] }

// element is one element of a list, embedded in its value.
type element[T any] struct {
	prev, next *element[T]
	of         T
}

// push appends e.
func (l *list[T]) push(e *element[T]) {
	e.prev, e.next = l.last, nil
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
}

// remove removes e from its list.
func (l *list[T]) remove(e *element[T]) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// The rankings of addresses in a crowd.
const (
	byHalf = iota
	byLoose
	rankings
)

// ranking orders addresses by how much of something they hold, which changes by one
// at a time. Among equals the one that has held as much for the longest comes first.
type ranking struct {
	kind    int
	buckets []list[*holder] // by what they hold
	most    int             // the highest bucket that is not empty; 0: all are
}

// change adds by, 1 or -1, to what h holds.
func (r *ranking) change(h *holder, by int) {
	e, n := &h.rank[r.kind], h.count[r.kind]
	if n > 0 {
		r.buckets[n].remove(e)
	}
	n += by
	h.count[r.kind] = n
	for len(r.buckets) <= n {
		r.buckets = append(r.buckets, list[*holder]{})
	}
	if n > 0 {
		r.buckets[n].push(e)
	}
	r.most = max(r.most, n)
	for r.most > 0 && r.buckets[r.most].first == nil {
		r.most--
	}
}

// top returns the address that holds most, nil where none holds anything.
func (r *ranking) top() *holder {
	if r.most == 0 {
		return nil
	}
	return r.buckets[r.most].first.of
}
