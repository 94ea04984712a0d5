package service

import "context"

// Control is the part of the library that a fake replaces.
type Control = control

// NewFake returns the service of a machine whose root is a folder of this process' user.
func NewFake(cfg Config, root string, trusted int, c Control, run func(ctx context.Context, name string, args ...string) (string, error)) *Service {
	return &Service{Config: cfg, root: root, trusted: trusted, control: c, run: run}
}

// As returns the service as another user sees it.
func (s *Service) As(uid int) *Service {
	other := *s
	other.uid = uid
	return &other
}
