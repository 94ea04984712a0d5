package station_test

import (
	"context"

	"gatehouse/internal/site"
)

// amend changes a station as applying a site does.
func (f *fixture) amend(ctx context.Context, id site.StationID, draft func(*site.Station) (site.Amendment, error)) error {
	return f.changes.Make(ctx, site.Actor{}, func() ([]site.Amendment, error) {
		st, _ := f.Station(id)
		a, err := draft(&st)
		return []site.Amendment{a}, err
	})
}

func (f *fixture) setSecret(ctx context.Context, id site.StationID, secret site.Secret) error {
	return f.amend(ctx, id, func(st *site.Station) (site.Amendment, error) { return f.DraftSecret(admin(), st, secret) })
}

func (f *fixture) setToken(ctx context.Context, id site.StationID, token site.Secret) error {
	return f.amend(ctx, id, func(st *site.Station) (site.Amendment, error) { return f.DraftToken(admin(), st, token) })
}
