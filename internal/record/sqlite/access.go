package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// LoadAccess implements access.Store.
func (db *DB) LoadAccess(ctx context.Context) (all site.Access, err error) {
	errs := make([]error, 7)
	all.Accounts, errs[0] = query(ctx, db, "SELECT id, email, admin, password, created FROM account", scanAccount)
	all.Sessions, errs[1] = query(ctx, db, "SELECT id, account, created, expires, clock_trusted, remote, client, used FROM session", scanSession)
	all.Devices, errs[2] = query(ctx, db, "SELECT account, sum, until FROM login_device", scanLoginDevice)
	all.Tokens, errs[3] = query(ctx, db, `SELECT id, name, sum, reads, unlocks_all, created, until_time, used,
		(SELECT json_group_array(station ORDER BY station) FROM token_station WHERE token = id) FROM token`, scanToken)
	all.Grants, errs[4] = query(ctx, db, "SELECT account, account_group, station, station_group, from_time, until_time, hours, holidays FROM access_grant", scanGrant)
	all.Groups, errs[5] = query(ctx, db, `SELECT name, kind, (SELECT json_group_array(json_object('Group', name, 'Account', account, 'Station', station)) FROM
		(SELECT name, account, 0 AS station FROM group_account UNION ALL SELECT name, '', station FROM group_station) m WHERE m.name = g.name)
		FROM site_group g`, scanGroup)
	all.Holidays, errs[6] = query(ctx, db, "SELECT name, dates FROM holiday", scanHoliday)
	return all, errors.Join(errs...)
}

func scanLoginDevice(rows *sql.Rows) (d site.LoginDevice, err error) {
	var until int64
	var sum []byte
	err = rows.Scan(&d.Account, &sum, &until)
	copy(d.Sum[:], sum)
	d.Until = fromMillis(until)
	return d, err
}

func scanAccount(rows *sql.Rows) (a site.Account, err error) {
	var created int64
	var password string
	err = rows.Scan(&a.ID, &a.Email, &a.Admin, &password, &created)
	a.Password, a.Created = site.Secret(password), site.At(fromMillis(created))
	return a, err
}

func scanSession(rows *sql.Rows) (s site.Session, err error) {
	var created, expires, used int64
	err = rows.Scan(&s.ID, &s.Account, &created, &expires, &s.ClockTrusted, &s.Remote, &s.Client, &used)
	s.Created, s.Expires, s.Used = site.At(fromMillis(created)), site.At(fromMillis(expires)), site.At(fromMillis(used))
	return s, err
}

func scanGrant(rows *sql.Rows) (g site.Grant, err error) {
	var account, accountGroup, stationGroup sql.NullString
	var station sql.NullInt64
	var from, until int64
	var hours, holidays string
	if err := rows.Scan(&account, &accountGroup, &station, &stationGroup, &from, &until, &hours, &holidays); err != nil {
		return g, err
	}
	g.Account, g.AccountGroup = site.AccountID(account.String), site.GroupName(accountGroup.String)
	g.Station, g.StationGroup = site.StationID(station.Int64), site.GroupName(stationGroup.String)
	g.From, g.Until = site.At(fromMillis(from)), site.At(fromMillis(until))
	if g.Hours, err = site.ParseSchedule(hours); err == nil {
		g.Holidays, err = site.ParseSchedule(holidays)
	}
	if err != nil {
		return g, errors.Join(errDamaged, err)
	}
	return g, nil
}

func scanGroup(rows *sql.Rows) (g site.Group, err error) {
	var members string
	if err := rows.Scan(&g.Name, &g.Kind, &members); err != nil {
		return g, err
	}
	return g, json.Unmarshal([]byte(members), &g.Members)
}

func scanHoliday(rows *sql.Rows) (h site.Holiday, err error) {
	var dates string
	if err := rows.Scan(&h.Name, &dates); err != nil {
		return h, err
	}
	for text := range strings.SplitSeq(dates, ",") {
		d, err := site.ParseDates(text)
		if err != nil {
			return h, errors.Join(errDamaged, err)
		}
		h.Dates = append(h.Dates, d)
	}
	return h, nil
}

// UpgradePassword replaces a password's hash by a stronger one of the same password;
// NotFound where the account has another password. It is no change that anyone made, so it
// leaves no record.
func (db *DB) UpgradePassword(ctx context.Context, id site.AccountID, from, to site.Secret) error {
	return db.change(ctx, false, func(t *transaction) error {
		return t.mustChange("Account", "UPDATE account SET password = ? WHERE id = ? AND password = ?", to.Reveal(), string(id), from.Reveal())
	})
}

// AddSession keeps a new session and its device, if that is not zero.
func (db *DB) AddSession(ctx context.Context, s site.Session, device [32]byte, r site.Record) error {
	return db.change(ctx, false, func(t *transaction) error {
		_, err := t.exec("INSERT INTO session (id, account, refresh, created, expires, clock_trusted, remote, client, used) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			string(s.ID), string(s.Account), s.Refresh[:], toMillis(s.Created.Time), toMillis(s.Expires.Time), s.ClockTrusted, s.Remote, s.Client, toMillis(s.Used.Time))
		if err != nil || device == ([32]byte{}) {
			return err
		}
		_, err = t.exec(`INSERT INTO login_device (account, sum, until) VALUES (?, ?, ?)
			ON CONFLICT (account, sum) DO UPDATE SET until = excluded.until`, string(s.Account), device[:], toMillis(s.Expires.Time))
		if err == nil { // the newest devices of the account are kept
			_, err = t.exec(`DELETE FROM login_device WHERE account = ?1 AND sum NOT IN
				(SELECT sum FROM login_device WHERE account = ?1 ORDER BY until DESC LIMIT ?2)`, string(s.Account), site.MaxLoginDevices)
		}
		return err
	}, r)
}

// dropSessions deletes sessions; those that are gone already do not matter.
func (t *transaction) dropSessions(ids []site.SessionID) error {
	for _, id := range ids {
		if _, err := t.exec("DELETE FROM session WHERE id = ?", string(id)); err != nil {
			return err
		}
	}
	return nil
}

// DropExpired forgets the sessions and devices that expired before now, and stores uses. The copy
// is not written again for uses alone: they are not worth it.
func (db *DB) DropExpired(ctx context.Context, now time.Time, uses site.Uses) error {
	var dropped int64
	err := db.do(ctx, func(t *transaction) error {
		for id, at := range uses.Tokens {
			if _, err := t.exec("UPDATE token SET used = ? WHERE id = ?", toMillis(at), string(id)); err != nil {
				return err
			}
		}
		for id, at := range uses.Sessions {
			if _, err := t.exec("UPDATE session SET used = ? WHERE id = ?", toMillis(at), string(id)); err != nil {
				return err
			}
		}
		devices, err := t.exec("DELETE FROM login_device WHERE until <= ?", toMillis(now))
		if err != nil {
			return err
		}
		sessions, err := t.exec("DELETE FROM session WHERE expires <= ?", toMillis(now))
		if dropped = devices + sessions; err != nil || dropped == 0 {
			return err
		}
		return t.renewVersion()
	})
	if err == nil && dropped > 0 {
		db.copyAgain(false)
	}
	return err
}

// RebaseSessions moves the expiry of sessions that began under an untrusted clock, and of their
// devices, which expire at the same moment.
func (db *DB) RebaseSessions(ctx context.Context, expires map[site.SessionID]time.Time) error {
	return db.change(ctx, false, func(t *transaction) error {
		for id, at := range expires {
			_, err := t.exec("UPDATE login_device SET until = ?1 WHERE (account, until) IN (SELECT account, expires FROM session WHERE id = ?2)", toMillis(at), string(id))
			if err != nil {
				return err
			}
			if _, err := t.exec("UPDATE session SET expires = ?, clock_trusted = 1 WHERE id = ?", toMillis(at), string(id)); err != nil {
				return err
			}
		}
		return nil
	})
}

// errDamaged is wrapped by a scan that finds a value which was never written. Its row
// is skipped: one damaged row must not keep every door shut.
var errDamaged = errors.New("the row is damaged")

// query reads all rows of a statement.
func query[T any](ctx context.Context, db *DB, text string, scan func(*sql.Rows) (T, error), args ...any) (all []T, err error) {
	for one, err := range each(ctx, db.reader(), scan, text, args...) {
		if errors.Is(err, errDamaged) {
			db.log.Error("a damaged row is skipped", "error", err)
			continue
		}
		if err != nil {
			return nil, storageError(fmt.Errorf("%s: %w", text, err))
		}
		all = append(all, one)
	}
	return all, nil
}

// toMillis and fromMillis are how times are stored; zero is 0.
func toMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
