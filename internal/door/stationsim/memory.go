package stationsim

import "gatehouse/internal/site"

// remembered is how many command ids a station keeps, as firmware with little
// memory would.
const remembered = 128

// memory knows the latest command ids and how each ended, so that a command is
// acted upon at most once. The zero memory is empty and ready.
type memory struct {
	results map[site.CommandID]*result // nil while the command is in hand
	ring    [remembered]site.CommandID
	next    int
}

// know reports whether id was seen before, with its result if there is one yet;
// a new id is remembered and the oldest forgotten.
func (m *memory) know(id site.CommandID) (past *result, known bool) {
	if past, known = m.results[id]; known {
		return past, true
	}
	if m.results == nil {
		m.results = make(map[site.CommandID]*result)
	}
	delete(m.results, m.ring[m.next])
	m.ring[m.next] = id
	m.next = (m.next + 1) % remembered
	m.results[id] = nil
	return nil, false
}

// ended keeps how a command that is still remembered ended.
func (m *memory) ended(r result) {
	if _, ok := m.results[r.ID]; ok {
		m.results[r.ID] = &r
	}
}
