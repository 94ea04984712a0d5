package unlock

import "time"

// Keys counts the keys that are remembered.
func (s *Service) Keys() (n int) {
	s.replays.mu.Lock()
	defer s.replays.mu.Unlock()
	for _, keys := range s.replays.byAccount {
		n += len(keys)
	}
	return n
}

// SetBoot sets the clock that continues while the machine sleeps.
func (s *Service) SetBoot(clock func() time.Duration) { s.boot = clock }
