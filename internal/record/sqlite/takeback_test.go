package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// trial migrates the database at path to a newer version and has that write to it.
func trial(t *testing.T, path string, write func(*sqlite.DB), migrations ...string) {
	t.Helper()
	known, _ := sqlite.Schema()
	if err := sqlite.MigrateBy(t.Context(), path, migrations...); err != nil {
		t.Fatal(err)
	}
	resume(t, path, known+len(migrations), write)
}

// resume has the newer version, whose schema is given, write to its database.
func resume(t *testing.T, path string, schema int, write func(*sqlite.DB)) {
	t.Helper()
	known, _ := sqlite.Schema()
	err := sqlite.SetVersion(t.Context(), path, known)
	if err == nil {
		db := open(t, path, newClock())
		write(db)
		err = db.Close()
	}
	if err = errors.Join(err, sqlite.SetVersion(t.Context(), path, schema)); err != nil {
		t.Fatal(err)
	}
}

func takeBack(t *testing.T, path string) error {
	t.Helper()
	return sqlite.TakeBack(t.Context(), sqlite.Config{Path: path, Boot: "boot-2", Logger: slog.New(slog.DiscardHandler)})
}

// mustTakeBack takes back, and opens the database.
func mustTakeBack(t *testing.T, path string) (*sqlite.DB, site.TakenBack) {
	t.Helper()
	if err := takeBack(t, path); err != nil {
		t.Fatal(err)
	}
	db := open(t, path, newClock())
	t.Cleanup(func() { _ = db.Close() })
	taken, ok, err := db.TakenBack(t.Context())
	if err != nil || !ok {
		t.Fatalf("nothing was taken back: %v", err)
	}
	return db, taken
}

// bodies returns the records of a file from the first to the last.
func bodies(t *testing.T, db *sqlite.DB, last uint64) (all []string) {
	t.Helper()
	for after := uint64(0); after < last; {
		some, err := db.Outbox(t.Context(), after, 1000)
		if err != nil || len(some) == 0 {
			t.Fatalf("after %d: %v", after, err)
		}
		for _, e := range some {
			all = append(all, string(e.Body))
			after = e.Seq
		}
	}
	return all[:last]
}

// changes makes changes of who may open what.
type changes struct {
	t  *testing.T
	db *sqlite.DB
}

func (c changes) amend(kind site.Kind, account site.AccountID, station site.StationID, a site.Amendment) {
	c.t.Helper()
	a.Record = site.Record{Kind: kind, Facts: site.Facts{Account: account, Station: station, By: "porter@example.test", Detail: fmt.Sprint("detail of ", kind)}}
	if account != "" && !strings.HasPrefix(string(account), "token") {
		a.Record.Email = site.Email(account + "@example.test")
	}
	if err := c.db.Amend(c.t.Context(), nil, []site.Amendment{a}); err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
		c.t.Fatal(kind, err)
	}
}

func (c changes) addAccount(id site.AccountID) {
	c.amend(site.KindAccountAdded, id, 0, site.Amendment{AddAccount: &site.Account{ID: id, Email: site.Email(id + "@example.test"), Password: site.Secret("hash of " + id)}})
}

func (c changes) setAccount(id site.AccountID, password site.Secret, admin bool) {
	c.amend(site.KindAccountChanged, id, 0, site.Amendment{UpdateAccount: &site.Account{ID: id, Email: site.Email(id + "@example.test"), Admin: admin, Password: password}})
}

func (c changes) removeAccount(id site.AccountID) {
	c.amend(site.KindAccountRemoved, id, 0, site.Amendment{RemoveAccount: id})
}

func (c changes) addStation(id site.StationID) {
	c.amend(site.KindStationAdded, "", id, site.Amendment{AddStation: &site.Station{ID: id, Name: "door", Locks: 1, Token: site.Secret(fmt.Sprint("token of ", id)), HomeAssistant: "state"}})
}

func (c changes) rotate(id site.StationID, secret byte) {
	c.amend(site.KindStationRotated, "", id, site.Amendment{UpdateStation: &site.Station{
		ID: id, Name: "door", Locks: 1, Token: site.Secret(fmt.Sprint("token of ", id, secret)), Secret: site.SecretHash{Sum: [32]byte{secret}}, HomeAssistant: "off",
	}})
}

// change records a change of a station's mode of Home Assistant, or of its name.
func (c changes) change(id site.StationID, mode site.HomeAssistantMode, detail string) {
	c.t.Helper()
	a := site.Amendment{LimitStation: &site.StationLimit{Station: id, HomeAssistant: mode}}
	a.Record = site.Record{Kind: site.KindStationChanged, Facts: site.Facts{Station: id, Detail: detail}}
	if err := c.db.Amend(c.t.Context(), nil, []site.Amendment{a}); err != nil {
		c.t.Fatal(err)
	}
}

func (c changes) removeStation(id site.StationID) {
	c.amend(site.KindStationRemoved, "", id, site.Amendment{RemoveStation: id})
}

func (c changes) grant(account site.AccountID, station site.StationID, hours string) {
	c.t.Helper()
	schedule, err := site.ParseSchedule(hours)
	if err != nil {
		c.t.Fatal(err)
	}
	c.amend(site.KindGranted, account, station, site.Amendment{PutGrant: &site.Grant{Account: account, Station: station, Terms: site.Terms{Hours: schedule}}})
}

func (c changes) groupGrant(group site.GroupName, station site.StationID) {
	c.amend(site.KindGranted, "", station, site.Amendment{PutGrant: &site.Grant{AccountGroup: group, Station: station}})
}

func (c changes) ungrant(account site.AccountID, station site.StationID) {
	c.amend(site.KindUngranted, account, station, site.Amendment{RemoveGrant: &site.GrantKey{Account: account, Station: station}})
}

func (c changes) addToken(id site.AccountID, stations ...site.StationID) {
	c.amend(site.KindTokenAdded, id, 0, site.Amendment{AddToken: &site.Token{ID: id, Name: string(id), Sum: [32]byte([]byte(fmt.Sprintf("%32s", id))), Scope: site.Scope{Unlock: stations}}})
}

func (c changes) removeToken(id site.AccountID) {
	c.amend(site.KindTokenRemoved, id, 0, site.Amendment{RemoveToken: id})
}

func (c changes) addGroup(name site.GroupName) {
	c.amend(site.KindGroupAdded, "", 0, site.Amendment{AddGroup: &site.Group{Name: name, Kind: site.OfAccounts}})
}

func (c changes) removeGroup(name site.GroupName) {
	c.amend(site.KindGroupRemoved, "", 0, site.Amendment{RemoveGroup: name})
}

func (c changes) member(name site.GroupName, account site.AccountID, is bool) {
	a := site.Amendment{RemoveMember: &site.Member{Group: name, Account: account}}
	if is {
		a = site.Amendment{AddMember: a.RemoveMember}
	}
	c.amend(site.KindGroupChanged, account, 0, a)
}

func (c changes) login(session site.SessionID, account site.AccountID) {
	s := site.Session{ID: session, Account: account, Refresh: [32]byte([]byte(fmt.Sprintf("%32s", session))), Remote: "192.0.2.1"}
	err := c.db.AddSession(c.t.Context(), s, [32]byte{}, site.Record{Kind: site.KindLogin, Facts: site.Facts{Account: account, Session: session}})
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
		c.t.Fatal(err)
	}
}

func (c changes) logout(session site.SessionID) {
	all, err := c.db.LoadAccess(c.t.Context())
	for _, s := range all.Sessions {
		if s.ID == session {
			err = c.db.Amend(c.t.Context(), nil, []site.Amendment{{
				EndSessions: []site.SessionID{session}, Record: site.Record{Kind: site.KindSessionRevoked, Facts: site.Facts{Account: s.Account, Session: session}},
			}})
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// rights is who may open what, each by its key.
type rights map[string]any

func rightsOf(t *testing.T, db *sqlite.DB) rights {
	t.Helper()
	all, err := db.LoadAccess(t.Context())
	stations, _, unread := db.LoadStations(t.Context())
	if err := errors.Join(err, unread); err != nil {
		t.Fatal(err)
	}
	r := rights{}
	for _, a := range all.Accounts {
		r["account "+string(a.ID)] = a
	}
	for _, s := range all.Sessions {
		r["session "+string(s.ID)] = s
	}
	for _, g := range all.Grants {
		r[fmt.Sprint("grant ", g.Key())] = g
	}
	for _, k := range all.Tokens {
		r["token "+string(k.ID)] = k.Sum
		for _, s := range k.Scope.Unlock {
			r[fmt.Sprint("token ", k.ID, " of ", s)] = true
		}
	}
	for _, g := range all.Groups {
		r["group "+string(g.Name)] = g.Kind
		for _, m := range g.Members {
			r[fmt.Sprint("member ", m)] = true
		}
	}
	for _, s := range stations {
		s.Enrolled = s.Enrolled.UTC()
		r[fmt.Sprint("station ", s.ID)] = s
	}
	return r
}

// randomChange makes one change of a small site.
func (c changes) randomChange(r *rand.Rand) {
	account, other := site.AccountID(fmt.Sprint("a", r.IntN(4))), site.SessionID(fmt.Sprint("s", r.IntN(12)))
	station, group, token := site.StationID(1+r.IntN(3)), site.GroupName(fmt.Sprint("g", r.IntN(2))), site.AccountID(fmt.Sprint("token", r.IntN(3)))
	hours := []string{"", "Mon-Fri 08:00-18:00", "Sat 10:00-12:00"}[r.IntN(3)]
	all := []func(){
		func() { c.addAccount(account) }, func() { c.removeAccount(account) },
		func() { c.setAccount(account, site.Secret(fmt.Sprint("hash ", r.IntN(1000))), r.IntN(2) == 0) },
		func() { c.addStation(station) }, func() { c.removeStation(station) }, func() { c.rotate(station, byte(r.IntN(200))) },
		func() { c.grant(account, station, hours) }, func() { c.grant(account, station, hours) }, func() { c.ungrant(account, station) },
		func() { c.groupGrant(group, station) },
		func() { c.addToken(token, station) }, func() { c.removeToken(token) },
		func() { c.addGroup(group) }, func() { c.removeGroup(group) },
		func() { c.member(group, account, true) }, func() { c.member(group, account, true) }, func() { c.member(group, account, false) },
		func() { c.login(other, account) }, func() { c.login(other, account) }, func() { c.logout(other) },
		func() {
			if err := c.db.AppendRecord(c.t.Context(), unlockRecord(int(station))); err != nil {
				c.t.Fatal(err)
			}
		},
	}
	all[r.IntN(len(all))]()
}

// Whatever happens before and in a trial: every record of both is there, as it was, and
// the chain is whole. Who may open what is what both had, as it was at the end of the
// trial: nothing that was revoked is back, and nothing is there that was not before.
func TestTakeBack_property(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // no secret
			path := filepath.Join(t.TempDir(), "gatehouse.db")
			db := open(t, path, newClock())
			for range 40 + r.IntN(60) {
				changes{t, db}.randomChange(r)
			}
			before := rightsOf(t, db)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			var after rights
			var last uint64
			var records []string
			trial(t, path, func(db *sqlite.DB) {
				for range r.IntN(60) {
					changes{t, db}.randomChange(r)
				}
				after, last = rightsOf(t, db), db.Latest()
				records = bodies(t, db, last)
			}, later)
			db, taken := mustTakeBack(t, path)
			if taken.To != last || db.Latest() != last+1 {
				t.Errorf("%+v; the newest record of the trial is %d, that of the database %d", taken, last, db.Latest())
			}
			mustVerify(t, db, int(last+1)) //nolint:gosec // small
			if !slices.Equal(bodies(t, db, last), records) {
				t.Error("the records are not those of the trial")
			}
			got, want := rightsOf(t, db), rights{}
			for key := range before {
				is, ok := after[key]
				_, carried := got[key]
				// What was removed and added again under the same id is another one.
				if ok && (carried || !hasRemoval(records[taken.From-1:])) {
					want[key] = is
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("the rights are\n%v\nwant\n%v", got, want)
			}
			lost := 0
			for key := range after {
				if _, ok := got[key]; !ok && !strings.HasPrefix(key, "session") {
					lost++
				}
			}
			if lost > 0 && len(taken.Undone) == 0 {
				t.Errorf("%d rights of the trial are lost, and none is named", lost)
			}
		})
	}
}

// hasRemoval reports whether there are records of what was removed with all that hung on it.
func hasRemoval(records []string) bool {
	return slices.ContainsFunc(records, func(body string) bool {
		return strings.Contains(body, `"kind":"account-removed"`) || strings.Contains(body, `"kind":"station-removed"`) || strings.Contains(body, `"kind":"token-removed"`)
	})
}

// A rollback to the old data fails, and the newer version returns: it has its own database
// again, with the journal of the rollback and without what that has revoked.
func TestTakeBack_failedRollback(t *testing.T) {
	for _, broken := range []bool{false, true} {
		path := trialSite(t)
		known, _ := sqlite.Schema()
		trial(t, path, func(db *sqlite.DB) {
			changes{t, db}.addAccount("a7")
			changes{t, db}.addStation(77)
		}, later)
		db, _ := mustTakeBack(t, path)
		changes{t, db}.addAccount("a8")
		changes{t, db}.logout("s1")
		ends := db.Latest()
		before := bodies(t, db, ends)
		// From here on this program is the newer version, and the schema before it the older one's.
		if err := errors.Join(db.Close(), sqlite.SetVersion(t.Context(), path+".newer", known), sqlite.SetVersion(t.Context(), path, known-1)); err != nil {
			t.Fatal(err)
		}
		if broken {
			if err := os.Truncate(path+".newer", 8192); err != nil {
				t.Fatal(err)
			}
			if err := takeBack(t, path); err != nil {
				t.Errorf("with a newer database that is damaged: %v", err)
			}
			continue
		}
		db, taken := mustTakeBack(t, path)
		now := rightsOf(t, db)
		if now["account a7"] == nil || now["station 77"] == nil || now["account a8"] != nil || now["session s1"] != nil || now["session s2"] == nil {
			t.Errorf("the rights are %v", now)
		}
		mustVerify(t, db, int(ends+1)) //nolint:gosec // small
		if got := bodies(t, db, ends); !slices.Equal(got, before) {
			t.Errorf("the journal is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(before, "\n"))
		}
		if len(taken.Undone) != 1 || !strings.Contains(taken.Undone[0], "a8") {
			t.Errorf("undone: %v", taken.Undone)
		}
	}
}

// failedRollback returns a database after a rollback to the old data, and beside it that of
// this version, which has the account a7.
func failedRollback(t *testing.T) string {
	t.Helper()
	path := trialSite(t)
	known, _ := sqlite.Schema()
	trial(t, path, func(db *sqlite.DB) { changes{t, db}.addAccount("a7") }, later)
	db, _ := mustTakeBack(t, path)
	if err := errors.Join(db.Close(), sqlite.SetVersion(t.Context(), path+".newer", known), sqlite.SetVersion(t.Context(), path, known-1)); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is left of former calls, or of one that was interrupted, does not keep a version from
// its own data.
func TestTakeBack_failedRollbackLeftovers(t *testing.T) {
	known, _ := sqlite.Schema()
	former := fmt.Sprintf(".schema%d", known)
	stale := func(name string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			text, err := os.ReadFile(trialSite(t))
			if err == nil {
				err = os.WriteFile(path+name, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, prepare := range map[string]func(*testing.T, string){
		"a stale copy":        stale(former),
		"a stale work file":   stale(former + ".work"),
		"an interrupted call": func(t *testing.T, path string) { interrupt(t, path) },
		"a journal of nothing": func(t *testing.T, path string) {
			if err := os.WriteFile(path+"-journal", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := failedRollback(t)
			prepare(t, path)
			if err := takeBack(t, path); err != nil {
				t.Fatal(err)
			}
			db := open(t, path, newClock())
			t.Cleanup(func() { _ = db.Close() })
			if now := rightsOf(t, db); now["account a7"] == nil {
				t.Errorf("the rights are %v", now)
			}
		})
	}
}

// interrupt takes back and is interrupted, at many moments until it is through.
func interrupt(t *testing.T, path string) {
	t.Helper()
	for after := time.Duration(0); ; after += 200*time.Microsecond + after/8 {
		ctx, cancel := context.WithTimeout(t.Context(), after) // real time: it grows until it is enough
		err := sqlite.TakeBack(ctx, sqlite.Config{Path: path, Boot: "boot-2", Logger: slog.New(slog.DiscardHandler)})
		cancel()
		if err == nil {
			return
		}
	}
}

// A journal file beside a database that is damaged does not keep the gateway from starting.
func TestTakeBack_damagedWithJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatehouse.db")
	for _, name := range []string{path, path + "-journal"} {
		if err := os.WriteFile(name, bytes.Repeat([]byte{0xa5}, 20_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := takeBack(t, path); err != nil {
		t.Error(err)
	}
}

// trialSite returns a database with an account, a grant, a session, a token and a group, and
// its path.
func trialSite(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a?b#%.db") // a path that a URL would take apart
	db := open(t, path, newClock())
	c := changes{t, db}
	c.addAccount("a1")
	c.addAccount("a2")
	c.addStation(1)
	c.addStation(2)
	c.grant("a1", 1, "Mon-Fri 08:00-18:00")
	c.grant("a2", 2, "")
	c.addToken("token1", 1)
	c.addGroup("g1")
	c.member("g1", "a1", true)
	c.member("g1", "a2", true)
	c.groupGrant("g1", 2)
	c.login("s1", "a1")
	c.login("s2", "a2")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// files returns the names and contents of the files beside a database, without the index of
// SQLite's log.
func files(t *testing.T, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(e.Name(), "-shm") && (len(text) > 0 || !strings.HasSuffix(e.Name(), "-wal")) {
			all[strings.TrimPrefix(e.Name(), filepath.Base(path))] = string(text)
		}
	}
	return all
}

// Without a newer database nothing is done.
func TestTakeBack_notNewer(t *testing.T) {
	path := trialSite(t)
	before := files(t, path)
	if err := takeBack(t, path); err != nil || !maps.Equal(files(t, path), before) {
		t.Errorf("a database of this version was changed: %v", err)
	}
	if err := takeBack(t, filepath.Join(t.TempDir(), "none.db")); err != nil {
		t.Errorf("without a database: %v", err)
	}
}

// damagedTrial is a trial in which the account a1 was removed first, a login revoked, and
// one more record written; the records are 14 to 16.
func damagedTrial(t *testing.T) (path string) {
	t.Helper()
	path = trialSite(t)
	trial(t, path, func(db *sqlite.DB) {
		c := changes{t, db}
		c.removeAccount("a1")
		c.logout("s2")
		if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
			t.Fatal(err)
		}
	}, later)
	return path
}

// However the newer database is damaged, the one of before is taken back: with the records
// up to the fault, and without what the rest that can be read has revoked.
func TestTakeBack_damaged(t *testing.T) {
	execute := func(text string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := sqlite.Exec(t.Context(), path, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	overwrite := func(from, to int64) func(*testing.T, string) { // in bytes; to 0 is the end
		return func(t *testing.T, path string) {
			text, err := os.ReadFile(path)
			if err == nil {
				end := int64(len(text))
				if to > 0 {
					end = to
				}
				for i := from; i < end; i++ {
					text[i] = 0xff
				}
				err = os.WriteFile(path, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// rootOf spoils the first page of a table, and of its indexes.
	rootOf := func(tables ...string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			for _, table := range tables {
				pages, err := sqlite.RootsOf(t.Context(), path, table)
				if err != nil {
					t.Fatal(err)
				}
				spoil(t, path, pages...)
			}
		}
	}
	size := func(n int64) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.Truncate(path, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	known, _ := sqlite.Schema()
	const all = "journal journal_ends account session station access_grant token site_group group_account group_station holiday meta"
	for name, c := range map[string]struct {
		spoil   func(*testing.T, string)
		carried int  // records of the trial
		lost    bool // some records may be lost
		blind   bool // nothing shows what was revoked
		schema0 bool // the version of the newer database cannot be read
	}{
		"changed record":     {spoil: execute("UPDATE journal SET body = replace(body, 'boot-1', 'boot-x') WHERE seq = 15"), carried: 1, lost: true},
		"changed hash":       {spoil: execute("UPDATE journal SET hash = zeroblob(32) WHERE seq = 15"), carried: 1, lost: true},
		"removed record":     {spoil: execute("DELETE FROM journal WHERE seq = 15"), carried: 1, lost: true},
		"removed end":        {spoil: execute("DELETE FROM journal WHERE seq = 16"), carried: 2, lost: true},
		"removed all":        {spoil: execute("DELETE FROM journal"), lost: true},
		"changed before":     {spoil: execute("UPDATE journal SET hash = zeroblob(32) WHERE seq = 13"), carried: 3},
		"another history":    {spoil: execute("UPDATE journal SET hash = zeroblob(32) WHERE seq >= 13"), lost: true},
		"column of journal":  {spoil: execute("ALTER TABLE journal RENAME COLUMN body TO text"), lost: true},
		"no journal":         {spoil: execute("ALTER TABLE journal RENAME TO chronicle"), lost: true},
		"column of ends":     {spoil: execute("ALTER TABLE journal_ends RENAME COLUMN anchor TO base"), carried: 3},
		"journal":            {spoil: rootOf("journal"), lost: true},
		"ends":               {spoil: rootOf("journal_ends"), carried: 3},
		"journal and ends":   {spoil: rootOf("journal", "journal_ends"), lost: true},
		"accounts":           {spoil: rootOf("account", "session"), carried: 3},
		"journal, accounts":  {spoil: rootOf("journal", "account", "session"), lost: true, blind: true},
		"every table":        {spoil: rootOf(strings.Fields(all)...), lost: true, blind: true},
		"schema":             {spoil: overwrite(100, 4096), lost: true, blind: true},
		"header":             {spoil: overwrite(0, 100), lost: true, blind: true, schema0: true},
		"everything":         {spoil: overwrite(0, 0), lost: true, blind: true, schema0: true},
		"all but the header": {spoil: overwrite(100, 0), lost: true, blind: true},
		"everything, with a log": {spoil: func(t *testing.T, path string) {
			noise := make([]byte, 20_000)
			noise[0] = 0xa5
			if err := errors.Join(os.WriteFile(path, noise, 0o600), os.WriteFile(path+"-wal", noise, 0o600), os.WriteFile(path+"-shm", nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, lost: true, blind: true, schema0: true},
		"truncated":        {spoil: size(4096), lost: true, blind: true, schema0: true},
		"truncated header": {spoil: size(50), lost: true, blind: true, schema0: true},
		"empty":            {spoil: size(0), lost: true, blind: true, schema0: true},
		"missing": {spoil: func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, lost: true, blind: true, schema0: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := damagedTrial(t)
			c.spoil(t, path)
			spoilt, _ := os.ReadFile(path)
			if err := takeBack(t, path); err != nil {
				t.Fatal(err)
			}
			if kept, _ := os.ReadFile(path + ".newer"); !bytes.Equal(kept, spoilt) {
				t.Error("the newer database was changed")
			}
			if name == "missing" { // the finding lasts as long as the newer database
				if err := os.WriteFile(path+".newer", nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			db := open(t, path, newClock())
			t.Cleanup(func() { _ = db.Close() })
			taken, ok, err := db.TakenBack(t.Context())
			if err != nil || !ok {
				t.Fatalf("nothing was taken back: %v", err)
			}
			if v, err := db.Verify(t.Context()); err != nil || v.Broken != 0 || (v.Lost > 0) != c.lost {
				t.Errorf("the journal is %+v, %v", v, err)
			}
			last := uint64(13 + c.carried) //nolint:gosec // small
			wantSchema := known + 1
			if c.schema0 {
				wantSchema = 0
			}
			if taken.From != 14 || taken.To != last || (taken.Lost == last+1) != c.lost || taken.Schema != wantSchema {
				t.Errorf("%+v", taken)
			}
			newest := mustRead(t, db, journal.Query{Newest: true, Limit: 2})
			if r := newest[1]; r.Kind != site.KindTakenBack || strings.Contains(r.Detail, "may be lost") != c.lost || r.Time != taken.Time || taken.LostSince.IsZero() == c.lost {
				t.Errorf("the newest record is %+v", r)
			}
			if r := newest[0]; c.lost && (r.Kind != site.KindRecordsLost || r.From != last+1 || r.To < 16 || !strings.HasSuffix(r.Detail, ".newer")) {
				t.Errorf("the record before is %+v", r)
			}
			got := rightsOf(t, db)
			if got["account a2"] == nil || got["grant {a2  2 }"] == nil || got["station 1"] == nil || got["token token1"] == nil || got["member {g1 a2 0}"] == nil {
				t.Errorf("the rights are %v", got)
			}
			if (got["account a1"] != nil) != c.blind || (got["session s2"] != nil) != c.blind {
				t.Errorf("what was revoked is back: %v", got)
			}
			if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Behind a damaged page the records that can be read still revoke.
func TestTakeBack_damagedPage(t *testing.T) {
	path := trialSite(t)
	unlocks := func(db *sqlite.DB) {
		for i := range 60 {
			if err := db.AppendRecord(t.Context(), unlockRecord(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	trial(t, path, func(db *sqlite.DB) {
		unlocks(db)
		changes{t, db}.ungrant("a2", 2)
		unlocks(db)
		changes{t, db}.removeAccount("a1")
	}, later)
	pages, err := sqlite.LeavesOf(t.Context(), path, "journal")
	if err != nil || len(pages) < 4 {
		t.Fatal(pages, err)
	}
	spoil(t, path, pages[1])
	accounts, err := sqlite.RootsOf(t.Context(), path, "account")
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, path, accounts...)
	db, taken := mustTakeBack(t, path)
	if got := rightsOf(t, db); got["account a1"] != nil || got["grant {a2  2 }"] != nil || got["account a2"] == nil {
		t.Errorf("the rights are %v", got)
	}
	if v, err := db.Verify(t.Context()); err != nil || v.Broken != 0 || v.Lost == 0 || taken.Lost < 15 || taken.Lost > 60 {
		t.Errorf("%+v, %v, %+v", v, err, taken)
	}
}

// A file that cannot be opened is that of this version where the copy of who may open what
// is: it is rescued as ever.
func TestTakeBack_unopenableOfOurs(t *testing.T) {
	path := damagedTrial(t)
	copied := filepath.Join(t.TempDir(), "gatehouse.db.copy")
	other := trialSite(t)
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: other, Copy: copied, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = db.Close()
	}
	if err = errors.Join(err, os.Truncate(path, 50)); err != nil {
		t.Fatal(err)
	}
	before := files(t, path)
	err = sqlite.TakeBack(t.Context(), sqlite.Config{Path: path, Copy: copied, Logger: slog.New(slog.DiscardHandler)})
	if err != nil || !maps.Equal(files(t, path), before) {
		t.Errorf("it was changed: %v", err)
	}
}

// Without a good copy nothing is changed.
func TestTakeBack_refused(t *testing.T) {
	known, _ := sqlite.Schema()
	for name, c := range map[string]struct {
		spoil func(former string) error
		want  string
		kind  fault.Kind
	}{
		"no copy":            {os.Remove, "there is no copy", fault.Conflict},
		"a copy of no bytes": {func(former string) error { return os.Truncate(former, 0) }, "schema 0", fault.Invalid},
		"half a copy":        {func(former string) error { return os.Truncate(former, 8192) }, "The copy ", fault.Invalid},
		"no database":        {func(former string) error { return os.WriteFile(former, make([]byte, 9000), 0o600) }, "The copy ", fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			path := damagedTrial(t)
			if err := c.spoil(fmt.Sprint(path, ".schema", known)); err != nil {
				t.Fatal(err)
			}
			before := files(t, path)
			if err := takeBack(t, path); !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
			if after := files(t, path); !maps.Equal(after, before) {
				t.Errorf("there are %v, before %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
			}
		})
	}
}

// A newer journal may have more columns, and a gateway that was killed leaves a log.
func TestTakeBack_moreColumns(t *testing.T) {
	path := trialSite(t)
	trial(t, path, func(db *sqlite.DB) { changes{t, db}.removeAccount("a1") },
		"ALTER TABLE journal ADD COLUMN zone TEXT NOT NULL DEFAULT 'x'; ALTER TABLE journal_ends ADD COLUMN more INTEGER NOT NULL DEFAULT 0;",
		"ALTER TABLE account ADD COLUMN phone TEXT NOT NULL DEFAULT ''; ALTER TABLE access_grant ADD COLUMN twice INTEGER NOT NULL DEFAULT 0;")
	db, taken := mustTakeBack(t, path)
	mustVerify(t, db, 15)
	if known, _ := sqlite.Schema(); taken.Schema != known+2 || taken.From != 14 || taken.To != 14 || len(taken.Undone) != 0 {
		t.Errorf("%+v", taken)
	}
	if got := rightsOf(t, db); got["account a1"] != nil || got["session s1"] != nil || got["session s2"] == nil {
		t.Errorf("the rights are %v", got)
	}
	newest := mustRead(t, db, journal.Query{Newest: true, Limit: 1})[0]
	if newest.Kind != site.KindTakenBack || newest.From != 14 || newest.To != 14 || newest.Count != 1 || newest.Boot != "boot-2" {
		t.Errorf("the newest record is %+v", newest)
	}
	if _, err := os.Stat(path + ".newer"); err != nil {
		t.Error(err)
	}
}

// Terms of a grant that was changed in the trial count where the newer version has them as
// this one has, else the grant ends.
func TestTakeBack_changedGrant(t *testing.T) {
	for _, migration := range []string{later, "ALTER TABLE access_grant ADD COLUMN twice INTEGER NOT NULL DEFAULT 0"} {
		path := trialSite(t)
		trial(t, path, func(db *sqlite.DB) { changes{t, db}.grant("a1", 1, "Sat 10:00-12:00") }, migration)
		db, taken := mustTakeBack(t, path)
		g, ok := rightsOf(t, db)["grant {a1  1 }"].(site.Grant)
		if same := migration == later; ok != same || same && g.Hours.String() != "Sat 10:00-12:00" || same != (len(taken.Undone) == 0) {
			t.Errorf("after %s: %+v, %v", migration, g, taken)
		}
	}
}

// After a take-back as many revocations count as stored as the newer database has: what is held
// beside it is not revoked a second time, nor forgotten.
func TestTakeBack_revoked(t *testing.T) {
	revoke := func(db *sqlite.DB, number uint64) {
		a := site.Amendment{RemoveToken: "token-1", Revocation: number, Record: site.Record{Kind: site.KindTokenRemoved}}
		if err := db.Amend(t.Context(), nil, []site.Amendment{a}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ before, trial, want uint64 }{
		"in the trial":     {5, 9, 9},
		"none":             {0, 0, 0},
		"none in it":       {5, 0, 5},
		"from an old copy": {100, 90, 90},
	} {
		path := trialSite(t)
		write := func(number uint64) func(*sqlite.DB) {
			return func(db *sqlite.DB) {
				if number > 0 {
					revoke(db, number)
				}
			}
		}
		known, _ := sqlite.Schema()
		resume(t, path, known, write(c.before))
		trial(t, path, write(c.trial), later)
		db, _ := mustTakeBack(t, path)
		if got, err := db.Revoked(t.Context()); got != c.want || err != nil {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
		}
	}
}

// What the newer database does not show in columns of this version is revoked by the record
// alone, rather too much than too little, and named.
func TestTakeBack_unreadable(t *testing.T) {
	path := trialSite(t)
	trial(t, path, func(db *sqlite.DB) {
		c := changes{t, db}
		c.setAccount("a1", "new hash", false)
		c.logout("s2")
		c.rotate(1, 7)
		c.change(1, "state", `name "new"`)
		c.change(2, "off", "Home Assistant: off")
		c.ungrant("a2", 2)
		c.member("g1", "a2", false)
		c.removeToken("token1")
		c.addAccount("a3")
		c.amend("invented", "", 0, site.Amendment{TimeZone: "Europe/Berlin"})
	}, later)
	for _, text := range []string{"account", "session", "station", "access_grant", "group_account"} {
		if err := sqlite.Exec(t.Context(), path, "ALTER TABLE "+text+" RENAME TO new_"+text); err != nil {
			t.Fatal(err)
		}
	}
	db, taken := mustTakeBack(t, path)
	got := rightsOf(t, db)
	for key, want := range map[string]bool{
		"session s1": true, "session s2": false, "grant {a1  1 }": true, "grant {a2  2 }": false, "member {g1 a2 0}": false, "member {g1 a1 0}": true,
		"token token1": false, "account a2": true, "account a3": false,
	} {
		if (got[key] != nil) != want {
			t.Errorf("%s: %v", key, got[key])
		}
	}
	if a, ok := got["account a1"].(site.Account); !ok || a.Password != "" {
		t.Errorf("the account whose password was changed is %+v", a)
	}
	if s, ok := got["station 1"].(site.Station); !ok || s.Secret.Sum != [32]byte{} || strings.Contains(s.Token.Reveal(), "token") {
		t.Errorf("the station whose secret was changed is %+v", s)
	}
	for id, want := range map[string]site.HomeAssistantMode{"station 1": "state", "station 2": "off"} {
		if s, ok := got[id].(site.Station); !ok || s.HomeAssistant != want {
			t.Errorf("Home Assistant has %q of %s, want %q", s.HomeAssistant, id, want)
		}
	}
	text := taken.String()
	for _, want := range []string{
		"account changed: a1@example.test", "session revoked: ", "station rotated: station 1", "ungranted: a2@example.test, station 2", "group changed: a2@example.test",
		"account added: a3@example.test", "invented: detail of invented, by porter@example.test, 2027-01-15T08:00:00.000Z",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if strings.Contains(text, "token removed") {
		t.Errorf("what was carried over is named: %s", text)
	}
}

// Only so many changes are named.
func TestTakeBack_manyChanges(t *testing.T) {
	path := trialSite(t)
	trial(t, path, func(db *sqlite.DB) {
		for i := range 30 {
			changes{t, db}.addAccount(site.AccountID(fmt.Sprint("more", i)))
		}
	}, later)
	_, taken := mustTakeBack(t, path)
	if len(taken.Undone) != 20 || taken.More != 10 || !strings.HasSuffix(taken.String(), "; and 10 more") {
		t.Errorf("%v", taken)
	}
}

// Retention in a long trial may have removed all that the copy has.
func TestTakeBack_pruned(t *testing.T) {
	path := trialSite(t)
	trial(t, path, func(db *sqlite.DB) {
		for range 40 {
			if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := db.Prune(t.Context(), journal.Retention{MaxBytes: db.Bytes() / 4, HardBytes: math.MaxInt64, Held: math.MaxInt64 - 1}); err != nil {
			t.Fatal(err)
		}
		if db.Oldest() < 20 {
			t.Fatalf("the oldest record is %d: this proves nothing", db.Oldest())
		}
		if err := errors.Join(db.SaveCloudCursor(t.Context(), 50), db.SaveCloudStations(t.Context(), []site.StationID{1, 2})); err != nil {
			t.Fatal(err)
		}
	}, later)
	db, _ := mustTakeBack(t, path)
	size := db.Size()
	mustVerify(t, db, int(size.Records))
	if cursor, err := db.CloudCursor(t.Context()); err != nil || cursor != 50 || size.Last != 54 || size.First < 20 || size.Bytes != sumOf(t, path) {
		t.Errorf("the journal is %+v, the cloud has %d: %v", size, cursor, err)
	}
}

// sumOf returns how many bytes the records of an open database have.
func sumOf(t *testing.T, path string) (sum int64) {
	t.Helper()
	records, err := sqlite.BytesIn(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// A second trial that fails is taken back like the first.
func TestTakeBack_again(t *testing.T) {
	path := trialSite(t)
	for round := range 3 {
		trial(t, path, func(db *sqlite.DB) {
			if exists(path + ".newer") {
				t.Error("the migration has left the newer database of the trial before")
			}
			if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
				t.Fatal(err)
			}
		}, later)
		db, taken := mustTakeBack(t, path)
		mustVerify(t, db, 13+2*(round+1))
		if taken.From != uint64(14+2*round) || taken.To != taken.From { //nolint:gosec // small
			t.Errorf("round %d: %+v", round, taken)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A call that was killed is completed by the next, wherever it was, also when the newer
// version was started in between.
func TestTakeBack_interrupted(t *testing.T) {
	known, _ := sqlite.Schema()
	finished := func(t *testing.T, name string) (path string) {
		path = trialSite(t)
		trial(t, path, func(db *sqlite.DB) {
			changes{t, db}.removeAccount("a1")
			changes{t, db}.addAccount("a3")
		}, later)
		if err := errors.Join(takeBack(t, path), os.Rename(path, path+name), os.Rename(path+".newer", path)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	check := func(t *testing.T, path string, records int) {
		t.Helper()
		db, taken := mustTakeBack(t, path)
		mustVerify(t, db, records)
		if taken.From != 14 || taken.To != uint64(records-1) || len(taken.Undone) != 1 || rightsOf(t, db)["account a1"] != nil { //nolint:gosec // small
			t.Errorf("%+v", taken)
		}
		left := slices.DeleteFunc(slices.Sorted(maps.Keys(files(t, path))), func(name string) bool { return name == "" || name == ".newer" || strings.HasSuffix(name, "-wal") })
		if len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	}
	work := fmt.Sprint(".schema", known, ".work")
	t.Run("before it was in place", func(t *testing.T) { check(t, finished(t, work), 16) })
	t.Run("and the newer version again", func(t *testing.T) {
		path := finished(t, work)
		resume(t, path, known+1, func(db *sqlite.DB) {
			if err := db.AppendRecord(t.Context(), unlockRecord(1)); err != nil {
				t.Fatal(err)
			}
		})
		check(t, path, 17)
	})
	t.Run("while it was put in place", func(t *testing.T) { check(t, finished(t, ".older"), 16) })
	t.Run("after the newer one was moved", func(t *testing.T) {
		path := finished(t, ".older")
		if err := os.Rename(path, path+".newer"); err != nil {
			t.Fatal(err)
		}
		check(t, path, 16)
	})
	t.Run("and opened", func(t *testing.T) {
		path := finished(t, ".older")
		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Copy: path + ".copy", Boot: "boot-3", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		mustVerify(t, db, 16)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("and another upgrade", func(t *testing.T) {
		path := finished(t, work)
		newer := path + ".elsewhere"
		if err := errors.Join(os.Rename(path, newer), os.Rename(path+work, path)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+work, []byte("what an abandoned call has left"), 0o600); err != nil {
			t.Fatal(err)
		}
		trial(t, path, func(db *sqlite.DB) { changes{t, db}.removeAccount("a2") }, later)
		db, taken := mustTakeBack(t, path)
		mustVerify(t, db, 18)
		if taken.From != 17 || taken.To != 17 {
			t.Errorf("%+v", taken)
		}
	})
}
