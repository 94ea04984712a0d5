package httpapi

import (
	"sync"

	"gatehouse/internal/site"
)

const (
	// maxStreams bounds the event streams that are open at once.
	maxStreams = 256
	// maxStreamsPerAccount bounds those of one account.
	maxStreamsPerAccount = 16
)

// streams counts the open event streams.
type streams struct {
	mu    sync.Mutex // mu guards what follows
	total int
	by    map[site.AccountID]int
}

func newStreams() *streams { return &streams{by: make(map[site.AccountID]int)} }

// enter counts a stream in, unless there are too many.
func (s *streams) enter(account site.AccountID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= maxStreams || s.by[account] >= maxStreamsPerAccount {
		return false
	}
	s.total++
	s.by[account]++
	return true
}

// leave counts a stream out.
func (s *streams) leave(account site.AccountID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.by[account]--; s.by[account] == 0 {
		delete(s.by, account)
	}
}

func (s *streams) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}
