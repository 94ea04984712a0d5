package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/google/uuid"

	"gatehouse/internal/site"
)

// Amend stores amendments with their records in one transaction, in their order: after
// a power cut all of them are there, or none. NotFound when what is changed or granted, or a
// station that is removed, does not exist, Conflict when an id, an e-mail
// address or a station token is taken; then nothing is stored. What else is removed may be
// gone already: its removal may have waited, see package amend. The number of the last
// revocation is stored with them. allowed, unless it is nil, is called directly before that, and its error
// refuses them. It follows a transaction of its own, so that it is asked after a disk that
// hung, not before.
func (db *DB) Amend(ctx context.Context, allowed func() error, all []site.Amendment) error {
	records, revokes := make([]site.Record, len(all)), false
	for i, a := range all {
		records[i] = a.Record
		revokes = revokes || a.AddAccount == nil && a.AddStation == nil && a.AddToken == nil // a grant may replace a wider one
	}
	if allowed != nil {
		if err := db.awaitDisk(ctx); err != nil {
			return err
		}
	}
	return db.change(ctx, revokes, func(t *transaction) error {
		if allowed != nil {
			if err := allowed(); err != nil {
				return err
			}
		}
		for _, a := range all {
			if err := t.amend(a); err != nil {
				return err
			}
		}
		if last := all[len(all)-1].Revocation; last > 0 {
			return t.setMeta(metaRevoked, strconv.FormatUint(last, 10))
		}
		return nil
	}, records...)
}

// awaitDisk returns once a transaction of no meaning is stored: the disk answers.
func (db *DB) awaitDisk(ctx context.Context) error {
	return db.do(ctx, func(t *transaction) error { return t.setMeta(metaAsked, uuid.NewString()) })
}

func (t *transaction) amend(a site.Amendment) (err error) {
	switch {
	case a.AddAccount != nil:
		n := a.AddAccount
		_, err = t.exec("INSERT INTO account (id, email, admin, password, created) VALUES (?, ?, ?, ?, ?)",
			string(n.ID), string(n.Email), n.Admin, n.Password.Reveal(), toMillis(n.Created.Time))
	case a.UpdateAccount != nil:
		n := a.UpdateAccount
		err = t.mustChange("Account", "UPDATE account SET email = ?, admin = ?, password = coalesce(nullif(?, ''), password) WHERE id = ?",
			string(n.Email), n.Admin, n.Password.Reveal(), string(n.ID))
	case a.DropPassword != "":
		_, err = t.exec("UPDATE account SET password = '' WHERE id = ?", string(a.DropPassword))
	case a.RemoveAccount != "":
		_, err = t.exec("DELETE FROM account WHERE id = ?", string(a.RemoveAccount))
	case len(a.EndSessions) > 0:
		err = t.dropSessions(a.EndSessions)
	case a.AddStation != nil:
		s := a.AddStation
		_, err = t.exec("INSERT INTO station (id, name, locks, token, salt, sum, enrolled, homeassistant) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			int64(s.ID), s.Name, s.Locks, s.Token.Reveal(), s.Secret.Salt[:], s.Secret.Sum[:], toMillis(s.Enrolled), string(s.HomeAssistant))
	case a.UpdateStation != nil:
		s := a.UpdateStation
		err = t.mustChange("Station", "UPDATE station SET name = ?, locks = ?, token = ?, salt = ?, sum = ?, homeassistant = ? WHERE id = ?",
			s.Name, s.Locks, s.Token.Reveal(), s.Secret.Salt[:], s.Secret.Sum[:], string(s.HomeAssistant), int64(s.ID))
	case a.RemoveStation != 0:
		err = t.mustChange("Station", "DELETE FROM station WHERE id = ?", int64(a.RemoveStation))
		if err == nil {
			err = errors.Join(t.forgetState(a.RemoveStation), t.forgetPoints(a.RemoveStation))
		}
	case a.DropSecret != 0:
		err = t.mustChange("Station", "UPDATE station SET sum = zeroblob(32) WHERE id = ?", int64(a.DropSecret))
	case a.LimitStation != nil:
		err = t.limitStation(*a.LimitStation)
	case a.AddToken != nil:
		err = t.addToken(*a.AddToken)
	case a.RemoveToken != "":
		_, err = t.exec("DELETE FROM token WHERE id = ?", string(a.RemoveToken))
	case a.TimeZone != "":
		err = t.setMeta(metaTimeZone, a.TimeZone)
	default:
		err = t.amendSchedule(a)
	}
	return err
}

// limitStation stores what is left of a station.
func (t *transaction) limitStation(l site.StationLimit) error {
	limited := site.Station{ID: l.Station}
	for s, err := range each(context.Background(), t.conn, scanStation, selectStations) {
		if err != nil {
			return err
		}
		if s.ID == l.Station {
			limited = l.Of(s)
		}
	}
	return t.amend(site.Amendment{UpdateStation: &limited})
}

// keyOf returns the key of a grant as the index of its table has it: nothing for null.
func keyOf(k site.GrantKey) []any {
	return []any{string(k.Account), string(k.AccountGroup), int64(k.Station), string(k.StationGroup)}
}

// withKey selects the grant of a key.
const withKey = "WHERE ifnull(account, '') = ? AND ifnull(account_group, '') = ? AND ifnull(station, 0) = ? AND ifnull(station_group, '') = ?"

// memberKey returns the key of a member as its table has it, and the column of that table
// in which the member stands; the table has its name.
func memberKey(m *site.Member) (column string, key []any) {
	if m.Station != 0 {
		return "station", []any{string(m.Group), int64(m.Station)}
	}
	return "account", []any{string(m.Group), string(m.Account)}
}

// amendSchedule stores what is amended of grants, groups and holidays.
func (t *transaction) amendSchedule(a site.Amendment) (err error) {
	switch {
	case a.PutGrant != nil:
		err = t.putGrant(*a.PutGrant)
	case a.NarrowGrant != nil:
		err = t.narrowGrant(*a.NarrowGrant)
	case a.RemoveGrant != nil:
		_, err = t.exec("DELETE FROM access_grant "+withKey, keyOf(*a.RemoveGrant)...)
	case a.AddGroup != nil:
		_, err = t.exec("INSERT INTO site_group (name, kind) VALUES (?, ?)", string(a.AddGroup.Name), string(a.AddGroup.Kind))
	case a.RemoveGroup != "":
		_, err = t.exec("DELETE FROM site_group WHERE name = ?", string(a.RemoveGroup))
	case a.AddMember != nil:
		column, key := memberKey(a.AddMember)
		_, err = t.exec("INSERT INTO group_"+column+" (name, "+column+") VALUES (?, ?)", key...)
	case a.RemoveMember != nil:
		column, key := memberKey(a.RemoveMember)
		_, err = t.exec("DELETE FROM group_"+column+" WHERE name = ? AND "+column+" = ?", key...)
	case a.PutHoliday != nil:
		err = t.putHoliday(*a.PutHoliday)
	case a.AddDates != nil:
		h := *a.AddDates
		old, found := stored(t, scanHoliday, "SELECT name, dates FROM holiday WHERE name = ?", h.Name)
		h.Dates = site.JoinDates(old.Dates, h.Dates)
		if err = found; err == nil {
			err = t.putHoliday(h)
		}
	case a.RemoveHoliday != "":
		_, err = t.exec("DELETE FROM holiday WHERE name = ?", a.RemoveHoliday)
	default:
		err = errors.New("an amendment that amends nothing")
	}
	return err
}

func (t *transaction) putGrant(g site.Grant) error {
	_, err := t.exec(`REPLACE INTO access_grant (account, account_group, station, station_group, from_time, until_time, hours, holidays)
		VALUES (nullif(?, ''), nullif(?, ''), nullif(?, 0), nullif(?, ''), ?, ?, ?, ?)`, append(keyOf(g.Key()), toMillis(g.From.Time), toMillis(g.Until.Time), g.Hours.String(), g.Holidays.String())...)
	return err
}

// narrowGrant narrows the grant of the same key, which may be gone already.
func (t *transaction) narrowGrant(to site.Grant) error {
	old, err := stored(t, scanGrant, `SELECT account, account_group, station, station_group, from_time, until_time, hours, holidays
		FROM access_grant `+withKey, keyOf(to.Key())...)
	if err != nil || old.Key() != to.Key() {
		return err
	}
	to.Terms = old.Meet(to.Terms)
	return t.putGrant(to)
}

// stored returns the row that a query finds, or zero for none and for a damaged one.
func stored[T any](t *transaction, scan func(*sql.Rows) (T, error), query string, args ...any) (row T, err error) {
	for row, err = range each(context.Background(), t.conn, scan, query, args...) {
		if errors.Is(err, errDamaged) {
			return *new(T), nil
		}
	}
	return row, err
}

func (t *transaction) putHoliday(h site.Holiday) error {
	_, err := t.exec("INSERT INTO holiday (name, dates) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET dates = excluded.dates", h.Name, h.Text())
	return err
}
