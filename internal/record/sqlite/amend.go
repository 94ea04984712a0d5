package sqlite

import (
	"context"
	"errors"

	"gatehouse/internal/site"
)

// Amend stores amendments with their records in one transaction, in their order: after
// a power cut all of them are there, or none. NotFound when what is changed, removed or
// granted does not exist, Conflict when an id, an e-mail address or a station token is
// taken; then nothing is stored.
func (db *DB) Amend(ctx context.Context, all []site.Amendment) error {
	records, taken := make([]site.Record, len(all)), false
	for i, a := range all {
		records[i] = a.Record
		taken = taken || a.AddAccount == nil && a.AddStation == nil // a grant may replace a wider one
	}
	return db.change(ctx, taken, func(t *transaction) error {
		for _, a := range all {
			if err := t.amend(a); err != nil {
				return err
			}
		}
		return nil
	}, records...)
}

func (t *transaction) amend(a site.Amendment) error {
	switch {
	case a.AddAccount != nil:
		return t.addAccount(*a.AddAccount)
	case a.UpdateAccount != nil:
		return t.updateAccount(*a.UpdateAccount)
	case a.RemoveAccount != "":
		return t.removeAccount(a.RemoveAccount)
	case a.AddStation != nil:
		return t.addStation(*a.AddStation)
	case a.UpdateStation != nil:
		return t.updateStation(*a.UpdateStation)
	case a.RemoveStation != 0:
		return t.removeStation(a.RemoveStation)
	case a.PutGrant != nil:
		return t.putGrant(*a.PutGrant)
	case a.RemoveGrant != nil:
		return t.removeGrant(a.RemoveGrant.Account, a.RemoveGrant.Station)
	case a.TimeZone != "":
		return t.setMeta(metaTimeZone, a.TimeZone)
	}
	return errors.New("an amendment that amends nothing")
}
