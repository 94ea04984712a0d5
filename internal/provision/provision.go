// Package provision makes the accounts, stations, grants and time zone of a
// gateway match a site file (contract, section 5, "apply"). It works out every
// change before it makes the first, refuses a site that does not fit what is on
// the gateway, and changes nothing that is as stated already: the same site a
// second time changes nothing.
//
// It decides nothing about what a good password or token is (package site, asked by
// access and station) and reads no file (package sitefile). The admin API calls it.
package provision

import (
	"context"
	"errors"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/sitefile"
	"gatehouse/internal/station"
)

// Accounts keeps accounts and grants; package access satisfies it. Safe for
// concurrent use.
type Accounts interface {
	// Accounts lists the accounts, sorted by e-mail.
	Accounts() []site.Account
	// AccountByEmail fails with NotFound.
	AccountByEmail(email string) (site.Account, error)
	// PasswordMatches hashes, so it takes long and few run at once. NotFound,
	// Unavailable.
	PasswordMatches(ctx context.Context, email string, password site.Secret) (bool, error)
	// AddAccount fails with Invalid, Conflict or Unavailable.
	AddAccount(ctx context.Context, by site.Actor, email string, password site.Secret, admin bool) (site.Account, error)
	// RemoveAccount removes its grants too. NotFound, Unavailable.
	RemoveAccount(ctx context.Context, by site.Actor, email string) error
	// SetPassword fails with Invalid, NotFound or Unavailable.
	SetPassword(ctx context.Context, by site.Actor, email string, password site.Secret) error
	// SetAdmin fails with NotFound or Unavailable.
	SetAdmin(ctx context.Context, by site.Actor, email string, admin bool) error

	// Grants lists the grants.
	Grants() []site.Grant
	// PutGrant fails with Invalid, NotFound or Unavailable.
	PutGrant(ctx context.Context, by site.Actor, grant site.Grant) (changed bool, err error)
	// RemoveGrant fails with NotFound or Unavailable.
	RemoveGrant(ctx context.Context, by site.Actor, account site.AccountID, station site.StationID) error
}

// Stations keeps stations; package station satisfies it. Safe for concurrent use.
type Stations interface {
	// Stations lists the stations, sorted by id.
	Stations() []site.Station
	// SecretMatches reports whether secret is that station's.
	SecretMatches(id site.StationID, secret site.Secret) bool
	// Enrol fails with Invalid, Conflict or Unavailable.
	Enrol(ctx context.Context, by site.Actor, r station.EnrolRequest) (station.Enrolled, error)
	// Update fails with Invalid, NotFound or Unavailable.
	Update(ctx context.Context, by site.Actor, id site.StationID, name string, locks int) (changed bool, err error)
	// SetSecret fails with Invalid, NotFound or Unavailable.
	SetSecret(ctx context.Context, by site.Actor, id site.StationID, secret site.Secret) error
	// SetToken fails with Invalid, NotFound, Conflict or Unavailable.
	SetToken(ctx context.Context, by site.Actor, id site.StationID, token site.Secret) error
	// Remove removes its grants too. NotFound, Unavailable.
	Remove(ctx context.Context, by site.Actor, id site.StationID) error
}

// Zone keeps the time zone in which the hours of grants are meant.
type Zone interface {
	// TimeZone gives its IANA name.
	TimeZone() string
	// SetTimeZone fails with Invalid or Unavailable.
	SetTimeZone(ctx context.Context, by site.Actor, name string) (changed bool, err error)
}

// Service applies sites, one at a time. Safe for concurrent use.
type Service struct {
	accounts Accounts
	stations Stations
	zone     Zone
	turn     chan struct{} // capacity 1: holds a token while a site is being applied
}

// New gives a Service; all three parts are required.
func New(accounts Accounts, stations Stations, zone Zone) (*Service, error) {
	if accounts == nil || stations == nil || zone == nil {
		return nil, errors.New("provisioning needs accounts, stations and a time zone")
	}
	return &Service{accounts: accounts, stations: stations, zone: zone, turn: make(chan struct{}, 1)}, nil
}

// Apply makes the gateway match s and says what it changed, or with o.DryRun what
// it would change. Errors: Invalid when the site itself is wrong, Conflict when it
// does not fit what is on the gateway, Timeout when ctx ends before its turn; then
// nothing has changed. When a change fails on the way, the error is that of the
// change and the result holds what was done before: what was issued in it is shown
// nowhere else. The same site applied again goes on from there.
func (p *Service) Apply(ctx context.Context, by site.Actor, s sitefile.Site, o sitefile.Options) (sitefile.Result, error) {
	if err := s.Check(); err != nil {
		return sitefile.Result{}, fault.New(fault.Invalid, err.Error())
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return sitefile.Result{}, fault.Wrap(fault.Timeout, "Another site is being applied; try again when it is done", ctx.Err())
	}
	stages, err := p.plan(ctx, by, s, o.Prune)
	if err != nil {
		return sitefile.Result{}, err
	}
	if o.DryRun {
		return preview(stages), nil
	}
	return run(ctx, stages)
}
