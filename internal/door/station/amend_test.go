package station_test

import (
	"context"
	"time"

	"gatehouse/internal/site"
)

// amend changes a station as applying a site does.
func (f *fixture) amend(ctx context.Context, id site.StationID, draft func(*site.Station) (site.Amendment, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	release, err := f.Hold(ctx, []site.StationID{id})
	if err != nil {
		return err
	}
	st, _ := f.Station(id)
	a, err := draft(&st)
	if err == nil {
		err = f.store.UpdateStation(ctx, *a.UpdateStation, a.Record)
	}
	disconnect := func() {}
	if err == nil {
		disconnect = f.Adopt([]site.Amendment{a})
	}
	release()
	disconnect()
	return err
}

func (f *fixture) setSecret(ctx context.Context, id site.StationID, secret site.Secret) error {
	return f.amend(ctx, id, func(st *site.Station) (site.Amendment, error) { return f.DraftSecret(admin(), st, secret) })
}

func (f *fixture) setToken(ctx context.Context, id site.StationID, token site.Secret) error {
	return f.amend(ctx, id, func(st *site.Station) (site.Amendment, error) { return f.DraftToken(admin(), st, token) })
}
