package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// zone is the time zone in which the hours of grants are meant: the configured
// one, else the one that a site file set, else the system's. Safe for concurrent
// use.
type zone struct {
	db      *sqlite.DB
	changed func(*time.Location) // called with a new zone

	mu         sync.Mutex // mu guards what follows
	configured string     // as in the configuration; "": it leaves the zone open
	name       string     // "" is the system's
}

func openZone(ctx context.Context, configured string, db *sqlite.DB) (*zone, error) {
	z := &zone{db: db, changed: func(*time.Location) {}}
	set, err := z.prepare(ctx, configured)
	if err == nil {
		set()
	}
	return z, err
}

// prepare checks a configured zone, "" for none, and returns a function that sets it.
func (z *zone) prepare(ctx context.Context, configured string) (set func(), err error) {
	name := configured
	if name == "" {
		if name, err = z.db.TimeZone(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := time.LoadLocation(name); err != nil {
		return nil, fmt.Errorf("reading the time zone: %w", err)
	}
	return func() {
		z.mu.Lock()
		z.configured, z.name = configured, name
		z.mu.Unlock()
		z.changed(z.location())
	}, nil
}

// TimeZone returns the zone's IANA name, or "" for the system's.
func (z *zone) TimeZone() string {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.name
}

// location returns the zone itself; its name has been checked.
func (z *zone) location() *time.Location {
	name := z.TimeZone()
	location, err := time.LoadLocation(name)
	if err != nil || name == "" {
		return time.Local
	}
	return location
}

// Draft drafts a zone that a site file names; Invalid for an unknown name, Conflict
// where the configuration sets another.
func (z *zone) Draft(by site.Actor, name string) (site.Amendment, error) {
	if _, err := time.LoadLocation(name); err != nil || name == "" {
		return site.Amendment{}, fault.New(fault.Invalid, "There is no time zone of that name: write it like Europe/Berlin")
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.configured != "" {
		return site.Amendment{}, fault.New(fault.Conflict, "The time zone is set by time_zone in the configuration: change it there, or leave it out of the site file")
	}
	record := site.Record{Kind: site.KindTimeZone, Facts: site.ByActor(by)}
	record.Detail = name
	return site.Amendment{TimeZone: name, Record: record}, nil
}

// adopt applies a stored zone.
func (z *zone) adopt(amendments []site.Amendment) {
	for _, a := range amendments {
		if a.TimeZone == "" {
			continue
		}
		z.mu.Lock()
		z.name = a.TimeZone
		z.mu.Unlock()
		z.changed(z.location())
	}
}
