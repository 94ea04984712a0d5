// Package provision makes the accounts, stations, grants and time zone of a
// gateway match a site file (contract, section 5, "apply"). It makes all changes in one
// transaction, refuses a site that does not fit what is on the gateway, and leaves what is
// as stated already: the same site a second time changes nothing.
//
// It decides nothing about what a good password or token is (package site, asked by
// access and station) and reads no file (package sitefile). The admin API calls it.
package provision

import (
	"context"

	"gatehouse/internal/access"
	"gatehouse/internal/access/amend"
	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// Zone keeps the time zone in which the hours of grants are meant.
type Zone interface {
	// TimeZone returns its IANA name.
	TimeZone() string
	// Draft fails with Invalid, or with Conflict where the configuration sets another.
	Draft(by site.Actor, name string) (site.Amendment, error)
}

// Service applies sites. Safe for concurrent use.
type Service struct {
	accounts *access.Service
	stations *station.Service
	zone     Zone
	changes  *amend.Service
}

// New returns a Service.
func New(accounts *access.Service, stations *station.Service, zone Zone, changes *amend.Service) *Service {
	return &Service{accounts: accounts, stations: stations, zone: zone, changes: changes}
}

// errChanged is returned where a password that has not been hashed is needed now.
var errChanged = fault.New(fault.Conflict, "The gateway was changed at the same time; apply the site again")

// Apply makes the gateway match s and returns what it changed, or with o.DryRun what it
// would change. All of it is one change in one transaction: after an error, or a power
// cut, nothing has changed. Errors: Invalid when the site itself is wrong, Conflict when
// it does not fit what is on the gateway, Unavailable when it cannot be stored: then what the
// site removes is revoked all the same, as by the commands that do so one by one.
func (p *Service) Apply(ctx context.Context, by site.Actor, s sitefile.Site, o sitefile.Options) (sitefile.Result, error) {
	if err := s.Check(); err != nil {
		return sitefile.Result{}, fault.New(fault.Invalid, err.Error())
	}
	newPlan := func() *plan { return &plan{Service: p, by: by, site: s, options: o, named: namesOf(s)} }
	w := newPlan()
	w.look()
	if err := w.check(); err != nil {
		return sitefile.Result{}, err
	}
	hashes, err := w.hash(ctx) // takes long, so it is done before the turn to change comes
	if err != nil {
		return sitefile.Result{}, err
	}
	if o.DryRun {
		err = w.draft(hashes)
	} else {
		err = p.changes.Make(ctx, by, func() ([]site.Amendment, error) { err := w.draft(hashes); return w.amendments, err })
	}
	if fault.Is(err, fault.Unavailable) && !o.DryRun {
		_ = p.changes.Revoke(ctx, by, func() ([]site.Amendment, error) { // stored later
			w := newPlan()
			err := w.draft(hashes)
			return w.revoking(), err
		})
	}
	if err != nil {
		return sitefile.Result{}, err
	}
	return w.result, nil
}
