package sqlite

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"strconv"
	"strings"

	"gatehouse/internal/site"
)

// carrying is how a change that the trial of a newer version has on record is carried over to
// the copy of before. In its statements ?1 is the account of the record (or the
// integration token), ?2 its station, ?3 its detail.
//
// What was revoked is revoked again, by the record where that names it, else because the
// newer database does not have it any more. What was changed is read from the newer
// database by the columns that this version knows. Nothing is added: what was added in the
// trial may stand under a condition of which this version knows nothing.
type carrying struct {
	carry []string
	// closed revokes more, by the record alone, where the newer database cannot be read; ""
	// where nothing can be revoked so.
	closed string
	// missing selects a row where what the record says is not in effect; "": it is.
	missing string
}

// grantKey is the key of a grant, as the index of its table has it, for a table alias.
func grantKey(of string) string {
	return "(ifnull(" + of + "account, ''), ifnull(" + of + "account_group, ''), ifnull(" + of + "station, 0), ifnull(" + of + "station_group, ''))"
}

// carriedKinds returns how each kind of change is carried over.
func carriedKinds() map[site.Kind]carrying {
	const named = "ifnull(account, '') = ?1 AND ifnull(station, 0) = ?2"
	gone := grantKey("") + " NOT IN (SELECT " + grantKey("")[1:len(grantKey(""))-1] + " FROM newer.access_grant)"
	grant := carrying{
		carry: []string{
			"DELETE FROM access_grant WHERE " + named + " AND " + gone,
			// Where the table has changed, its terms may mean more than this version knows.
			`DELETE FROM access_grant AS g WHERE ` + named + ` AND NOT EXISTS (
				SELECT 1 FROM newer.access_grant AS n WHERE ` + grantKey("n.") + ` = ` + grantKey("g.") + ` AND (
					(n.from_time, n.until_time, n.hours, n.holidays) = (g.from_time, g.until_time, g.hours, g.holidays)
					OR (SELECT sql FROM newer.sqlite_schema WHERE name = 'access_grant') = (SELECT sql FROM main.sqlite_schema WHERE name = 'access_grant')))`,
			`UPDATE access_grant AS g SET from_time = n.from_time, until_time = n.until_time, hours = n.hours, holidays = n.holidays
				FROM newer.access_grant AS n WHERE ` + grantKey("n.") + ` = ` + grantKey("g.") + ` AND ifnull(g.account, '') = ?1 AND ifnull(g.station, 0) = ?2`,
		},
		closed:  "DELETE FROM access_grant WHERE " + named,
		missing: "SELECT 1 FROM newer.access_grant AS n WHERE " + named + " AND NOT EXISTS (SELECT 1 FROM main.access_grant AS g WHERE " + grantKey("g.") + " = " + grantKey("n.") + ")",
	}
	ungrant := grant
	ungrant.missing = ""
	group := []string{
		"DELETE FROM site_group WHERE name NOT IN (SELECT name FROM newer.site_group)",
		"DELETE FROM group_account WHERE (name, account) NOT IN (SELECT name, account FROM newer.group_account)",
		"DELETE FROM group_station WHERE (name, station) NOT IN (SELECT name, station FROM newer.group_station)",
		"DELETE FROM access_grant WHERE (account_group IS NOT NULL OR station_group IS NOT NULL) AND " + gone, // of a group that was removed and added again
	}
	station := `UPDATE station AS s SET name = n.name, locks = n.locks, token = n.token, salt = n.salt, sum = n.sum, homeassistant = n.homeassistant
		FROM newer.station AS n WHERE n.id = s.id AND s.id = ?2`
	return map[site.Kind]carrying{
		site.KindSessionRevoked: {
			carry:  []string{"DELETE FROM session WHERE account = ?1 AND id NOT IN (SELECT id FROM newer.session)"},
			closed: "DELETE FROM session WHERE account = ?1",
		},
		site.KindAccountAdded: {missing: "SELECT 1 FROM newer.account WHERE id = ?1"},
		site.KindAccountChanged: {
			carry:  []string{"UPDATE account AS a SET password = n.password, admin = n.admin FROM newer.account AS n WHERE n.id = a.id AND a.id = ?1"},
			closed: "UPDATE account SET password = '', admin = 0 WHERE id = ?1",
		},
		site.KindAccountRemoved: {carry: []string{"DELETE FROM account WHERE id = ?1"}},
		site.KindStationAdded:   {missing: "SELECT 1 FROM newer.station WHERE id = ?2 AND id NOT IN (SELECT id FROM main.station)"},
		site.KindStationChanged: {
			carry: []string{station},
			closed: `UPDATE station SET homeassistant = min(homeassistant, iif(?3 LIKE '%Home Assistant: off%', 'off', 'state'))
				WHERE id = ?2 AND ?3 LIKE '%Home Assistant: %'`,
		},
		site.KindStationRotated: {carry: []string{station}, closed: "UPDATE station SET token = lower(hex(randomblob(16))), sum = zeroblob(32) WHERE id = ?2"},
		site.KindStationRemoved: {carry: []string{"DELETE FROM station WHERE id = ?2", "DELETE FROM battery WHERE station = ?2"}},
		site.KindGranted:        grant,
		site.KindUngranted:      ungrant,
		site.KindTokenAdded:     {missing: "SELECT 1 FROM newer.token WHERE id = ?1"},
		site.KindTokenRemoved:   {carry: []string{"DELETE FROM token WHERE id = ?1"}},
		site.KindGroupAdded:     {missing: "SELECT 1 FROM newer.site_group WHERE name NOT IN (SELECT name FROM main.site_group)"},
		site.KindGroupChanged: {
			carry:  group,
			closed: "DELETE FROM group_account WHERE account = ?1 AND ?2 = 0; DELETE FROM group_station WHERE ?1 = '' AND station = ?2",
			missing: `SELECT 1 FROM newer.group_account WHERE account = ?1 AND ?2 = 0 AND (name, account) NOT IN (SELECT name, account FROM main.group_account)
				UNION ALL SELECT 1 FROM newer.group_station WHERE ?1 = '' AND station = ?2 AND (name, station) NOT IN (SELECT name, station FROM main.group_station)`,
		},
		site.KindGroupRemoved:   {carry: group},
		site.KindHolidayChanged: {carry: []string{"DELETE FROM holiday", "INSERT INTO holiday (name, dates) SELECT name, dates FROM newer.holiday"}},
		site.KindHolidayRemoved: {carry: []string{"DELETE FROM holiday", "INSERT INTO holiday (name, dates) SELECT name, dates FROM newer.holiday"}},
		site.KindTimeZone:       {carry: []string{"INSERT OR REPLACE INTO meta (key, value) SELECT key, value FROM newer.meta WHERE key = '" + metaTimeZone + "'"}},
	}
}

// isChange reports whether records of a kind are of changes by administrators, or of a
// kind that this version does not know.
func isChange(k site.Kind) bool {
	_, known := carriedKinds()[k]
	return known || !slices.Contains(site.Kinds(), k)
}

// carryChanges carries over what the trial has revoked and changed, and names what is not in
// effect after that.
func (t *taking) carryChanges(ctx context.Context) error {
	kinds := carriedKinds()
	if t.taken.Lost > 0 && t.newer == damaged {
		if err := t.carryUnrecorded(ctx, kinds); err != nil {
			return err
		}
	}
	lacking := make([]bool, len(t.changes))
	for i, r := range t.changes {
		c, known := kinds[r.Kind]
		carried, err := t.try(ctx, r, c.carry...)
		if err == nil && !carried && c.closed != "" {
			_, err = t.try(ctx, r, c.closed)
		}
		if err != nil {
			return err
		}
		lacking[i] = !known || !carried
	}
	for i, r := range t.changes {
		missing, err := t.lacks(ctx, r, kinds[r.Kind].missing)
		if err != nil {
			return err
		}
		if lacking[i] || missing {
			t.name(r)
		}
	}
	return nil
}

// carryUnrecorded carries over what lost records may have revoked or changed, from the
// tables of the newer database whose pages are whole.
func (t *taking) carryUnrecorded(ctx context.Context, kinds map[site.Kind]carrying) error {
	for _, c := range []struct {
		kind   site.Kind
		tables string
		rows   string // the account and station of each record that there may have been
	}{
		{site.KindAccountRemoved, "account", "SELECT id, 0 FROM main.account WHERE id NOT IN (SELECT id FROM newer.account)"},
		{site.KindAccountChanged, "account", "SELECT id, 0 FROM main.account"},
		{site.KindSessionRevoked, "session", "SELECT id, 0 FROM main.account"},
		{site.KindStationRemoved, "station", "SELECT '', id FROM main.station WHERE id NOT IN (SELECT id FROM newer.station)"},
		{site.KindStationChanged, "station", "SELECT '', id FROM main.station"},
		{site.KindTokenRemoved, "token", "SELECT id, 0 FROM main.token WHERE id NOT IN (SELECT id FROM newer.token)"},
		{site.KindGroupChanged, "site_group group_account group_station access_grant", "SELECT '', 0"},
		{site.KindGranted, "access_grant", "SELECT DISTINCT ifnull(account, ''), ifnull(station, 0) FROM main.access_grant"},
		{site.KindHolidayChanged, "holiday", "SELECT '', 0"},
		{site.KindTimeZone, "meta", "SELECT '', 0"},
	} {
		sound := true
		for table := range strings.FieldsSeq(c.tables) {
			sound = sound && pragmaCheck(ctx, t.conn, "newer.integrity_check("+table+")") == nil
		}
		if !sound {
			continue
		}
		var all []site.Record
		for r, err := range each(ctx, t.conn, scanChanged, c.rows) {
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		for _, r := range all {
			if _, err := t.try(ctx, r, kinds[c.kind].carry...); err != nil {
				return err
			}
		}
	}
	return nil
}

func scanChanged(rows *sql.Rows) (r site.Record, err error) {
	err = rows.Scan(&r.Account, &r.Station)
	return r, err
}

// try executes statements for a record, all or none. It reports whether it did; an error
// is not one of what the newer database is like.
func (t *taking) try(ctx context.Context, r site.Record, statements ...string) (done bool, err error) {
	if err := t.exec(ctx, "SAVEPOINT change"); err != nil {
		return false, err
	}
	for _, text := range statements {
		if err = t.exec(ctx, text, string(r.Account), int64(r.Station), r.Detail); err != nil {
			break
		}
	}
	if isDamage(err) {
		t.cfg.Logger.Error("a change of the newer version cannot be carried over", "kind", r.Kind, "record", r.Seq, "error", err)
		return false, t.exec(ctx, "ROLLBACK TO change; RELEASE change")
	}
	if err != nil {
		return false, err
	}
	return true, t.exec(ctx, "RELEASE change")
}

// lacks reports whether a query for a record finds a row, or cannot be made; not where it
// is "".
func (t *taking) lacks(ctx context.Context, r site.Record, query string) (found bool, err error) {
	if query == "" {
		return false, nil
	}
	err = t.conn.QueryRowContext(ctx, "SELECT EXISTS ("+query+")", string(r.Account), int64(r.Station)).Scan(&found)
	if isDamage(err) {
		return true, nil
	}
	return found, err
}

// carryState carries over what the newer version knew of the world: the time floor, the steps of
// the clock, what the cloud has, which update has its record, up to which number revocations are
// stored, and the states and batteries of stations. What cannot be read of it is as it was before
// the trial; of a database that is not whole, fewer revocations count as stored rather than more.
func (t *taking) carryState(ctx context.Context) error {
	stored := "ifnull((SELECT CAST(value AS INTEGER) FROM main.meta WHERE key = '" + metaRevoked + "'), 0)"
	if t.newer == whole {
		stored = strconv.FormatInt(math.MaxInt64, 10)
	}
	for _, text := range []string{
		"INSERT OR REPLACE INTO meta (key, value) SELECT key, value FROM newer.meta WHERE key IN ('" + metaFloor + "', '" + metaCursor + "', '" + metaStations + "', '" + metaUpdate + "', '" + metaSteps + "')",
		"INSERT OR REPLACE INTO meta (key, value) SELECT '" + metaRevoked + "', min(ifnull((SELECT CAST(value AS INTEGER) FROM newer.meta WHERE key = '" + metaRevoked + "'), 0), " + stored + ")",
		"INSERT OR REPLACE INTO station_states (id, body) SELECT id, body FROM newer.station_states",
		"INSERT OR IGNORE INTO battery (day, station, millivolts) SELECT day, station, millivolts FROM newer.battery WHERE station IN (SELECT id FROM main.station)",
	} {
		if _, err := t.try(ctx, site.Record{}, text); err != nil {
			return err
		}
	}
	return nil
}
