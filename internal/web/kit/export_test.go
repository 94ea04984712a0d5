package kit

import "gatehouse/internal/fault"

// StatusOf is the table from kinds of errors to statuses.
func StatusOf(kind fault.Kind) int { return statusOf(kind) }

// Connections returns how many connections there are.
func (s *Service) Connections() int { _, all := s.count(false); return all }
