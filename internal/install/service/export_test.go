package service

import "context"

// NewFake returns the service of a machine whose root is a folder of this process' user.
func NewFake(cfg Config, root string, trusted int, run func(ctx context.Context, name string, args ...string) (string, error)) *Service {
	return &Service{Config: cfg, root: root, trusted: trusted, run: run}
}

// As returns the service as another user sees it.
func (s *Service) As(uid int) *Service {
	other := *s
	other.uid = uid
	return &other
}
