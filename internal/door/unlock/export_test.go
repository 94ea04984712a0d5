package unlock

// Keys counts the keys that are remembered.
func (s *Service) Keys() (n int) {
	s.replays.mu.Lock()
	defer s.replays.mu.Unlock()
	for _, keys := range s.replays.byAccount {
		n += len(keys)
	}
	return n
}
