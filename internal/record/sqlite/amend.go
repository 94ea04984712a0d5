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
	records, revokes := make([]site.Record, len(all)), false
	for i, a := range all {
		records[i] = a.Record
		revokes = revokes || a.AddAccount == nil && a.AddStation == nil && a.AddToken == nil // a grant may replace a wider one
	}
	return db.change(ctx, revokes, func(t *transaction) error {
		for _, a := range all {
			if err := t.amend(a); err != nil {
				return err
			}
		}
		return nil
	}, records...)
}

func (t *transaction) amend(a site.Amendment) (err error) {
	switch {
	case a.AddAccount != nil:
		n := a.AddAccount
		_, err = t.exec("INSERT INTO account (id, email, admin, password, created) VALUES (?, ?, ?, ?, ?)",
			string(n.ID), string(n.Email), n.Admin, n.Password.Reveal(), toMillis(n.Created))
	case a.UpdateAccount != nil:
		n := a.UpdateAccount
		err = t.mustChange("Account", "UPDATE account SET email = ?, admin = ?, password = ? WHERE id = ?",
			string(n.Email), n.Admin, n.Password.Reveal(), string(n.ID))
	case a.RemoveAccount != "":
		err = t.mustChange("Account", "DELETE FROM account WHERE id = ?", string(a.RemoveAccount))
	case a.AddStation != nil:
		s := a.AddStation
		_, err = t.exec("INSERT INTO station (id, name, locks, token, salt, sum, enrolled) VALUES (?, ?, ?, ?, ?, ?, ?)",
			int64(s.ID), s.Name, s.Locks, s.Token.Reveal(), s.Secret.Salt[:], s.Secret.Sum[:], toMillis(s.Enrolled))
	case a.UpdateStation != nil:
		s := a.UpdateStation
		err = t.mustChange("Station", "UPDATE station SET name = ?, locks = ?, token = ?, salt = ?, sum = ? WHERE id = ?",
			s.Name, s.Locks, s.Token.Reveal(), s.Secret.Salt[:], s.Secret.Sum[:], int64(s.ID))
	case a.RemoveStation != 0:
		err = t.mustChange("Station", "DELETE FROM station WHERE id = ?", int64(a.RemoveStation))
		if err == nil {
			err = t.forgetState(a.RemoveStation)
		}
	case a.PutGrant != nil:
		g := a.PutGrant
		_, err = t.exec(`INSERT INTO access_grant (account, station, from_time, until_time, hours) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (account, station) DO UPDATE SET from_time = excluded.from_time, until_time = excluded.until_time, hours = excluded.hours`,
			string(g.Account), int64(g.Station), toMillis(g.From), toMillis(g.Until), g.Hours.String())
	case a.RemoveGrant != nil:
		err = t.mustChange("Grant", "DELETE FROM access_grant WHERE account = ? AND station = ?",
			string(a.RemoveGrant.Account), int64(a.RemoveGrant.Station))
	case a.AddToken != nil:
		err = t.addToken(*a.AddToken)
	case a.RemoveToken != "":
		err = t.mustChange("Token", "DELETE FROM token WHERE id = ?", string(a.RemoveToken))
	case a.TimeZone != "":
		err = t.setMeta(metaTimeZone, a.TimeZone)
	default:
		err = errors.New("an amendment that amends nothing")
	}
	return err
}
