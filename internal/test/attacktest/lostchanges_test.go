package attacktest_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// What was possible: after damage of the database, or of its log, the gateway started with an older copy, and
// what a change had revoked since was back, although it was stored and answered: a grant, a group, a member or a station
// that "apply --prune" had removed, a grant without an end, hours or holidays, the role of an administrator, a
// replaced password, the old secret of a station, the mode of Home Assistant, a lock that was removed, a station
// token that was replaced, and the session that a login had ended. The copy cannot be written meanwhile, as on a stick that is full.
func TestAttack_lostChanges(t *testing.T) {
	t.Parallel()
	h := newLostHouse(t)
	for end, stop := range map[string]func(*gatewaytest.Program){
		"SIGTERM": func(p *gatewaytest.Program) { check(t, p.Stop()) },
		"SIGKILL": (*gatewaytest.Program).Kill,
	} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			r := h.run(t, copyOf(t, h.data), filepath.Join(t.TempDir(), "absent"))
			h.revoke(r)
			r.checkGone("at once")
			stop(r.Program)
			check(t, ignoreMissing(os.Remove(filepath.Join(r.Data, "admin.sock")))) // it cannot be copied
			for name, damage := range map[string]func(t *testing.T, data string){
				"database": func(t *testing.T, data string) {
					check(t, os.Truncate(filepath.Join(data, "gatehouse.db"), 0))
					removeLog(t, data)
				},
				"log": removeLog,
			} {
				t.Run(name, func(t *testing.T) {
					data := copyOf(t, r.Data)
					damage(t, data)
					h.gone(h.run(t, data, h.copies))
				})
			}
		})
	}
}

// lostHouse is the data of a gateway on which nothing is revoked yet, with a copy that has everything.
type lostHouse struct {
	rights
	data, copies string
}

// secretGiven is the secret of a station that a site file states.
const secretGiven = "EXAMPLESECRETOFSTATION3"

// reduced is a station that loses a lock and its token.
const (
	reduced     site.StationID = 8
	tokenBefore                = "the-token-before"
	tokenAfter                 = "the-token-after"
)

func newLostHouse(t *testing.T) *lostHouse {
	t.Helper()
	h := &lostHouse{data: filepath.Join(t.TempDir(), "data"), copies: t.TempDir()}
	p := gatewaytest.Exec(t, h.launch(h.data, h.copies))
	h.rights = *newRights(p)
	for who, status := range map[string]int{
		"kept": http.StatusOK, "password": http.StatusOK, "hours": http.StatusNotFound, "ended": http.StatusNotFound,
		"holiday": http.StatusNotFound, "evicted": http.StatusUnauthorized,
	} {
		h.rights.gone[who] = status
		check(t, h.add(who))
		_, err := p.Admin.Grant(t.Context(), who+"@example.test", "1", adminapi.GrantTerms{})
		check(t, err)
	}
	_, err := p.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: reduced, Locks: 2, Token: tokenBefore})
	check(t, err)
	_, err = p.Admin.Grant(t.Context(), "kept@example.test", "8", adminapi.GrantTerms{})
	check(t, err)
	h.checkThere()
	sessions, err := p.Admin.Sessions(t.Context(), "evicted@example.test")
	check(t, err)
	accounts, err := p.Admin.Accounts(t.Context())
	check(t, err)
	check(t, p.Stop())
	for _, a := range accounts {
		if a.Email == "evicted@example.test" {
			h.fillSessions(t, a.ID, sessions[0].Created.Time)
		}
	}
	p.Start()
	p.AwaitReady()
	check(t, p.Stop()) // the copy has everything now
	return h
}

// fillSessions adds sessions to an account up to the most that it may have, all newer than its own.
func (h *lostHouse) fillSessions(t *testing.T, account site.AccountID, after time.Time) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(h.data, "gatehouse.db"), Boot: "filler", Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	db.UseClock(systemClock{})
	const most = 500
	var adding sync.WaitGroup // they share transactions
	for i := range most - 1 {
		created := after.Add(time.Duration(i+1) * time.Millisecond)
		s := site.Session{
			ID: site.SessionID(fmt.Sprint("filler-", i)), Account: account, Refresh: [32]byte{byte(i), byte(i >> 8), 1},
			Created: site.At(created), Expires: site.At(created.Add(24 * time.Hour)), ClockTrusted: true, Remote: "127.0.0.1",
		}
		adding.Go(func() {
			if err := db.AddSession(t.Context(), s, [32]byte{}, site.Record{Kind: site.KindLogin, Facts: site.Facts{Account: account}}); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	check(t, db.Close())
}

func (*lostHouse) launch(data, copies string) gatewaytest.Launch {
	socket := filepath.Join(data, "admin.sock")
	return gatewaytest.Launch{Data: data, Socket: socket, Env: []string{"GATEHOUSE_DATA_COPY=" + copies, "GATEHOUSE_ADMIN_SOCKET=" + socket, "GATEHOUSE_LOGIN_HASH_MEMORY=7MiB"}}
}

// run starts a gateway on data, with a copy of the folder copies, where there is one.
func (h *lostHouse) run(t *testing.T, data, copies string) *rights {
	t.Helper()
	if _, err := os.Stat(copies); err == nil {
		copies = copyOf(t, copies)
	}
	r := h.rights
	r.Program = gatewaytest.Exec(t, h.launch(data, copies))
	return &r
}

// revoke revokes everything, most of it by a site file.
func (h *lostHouse) revoke(r *rights) {
	r.T.Helper()
	ctx := r.T.Context()
	today := time.Now()
	text := fmt.Sprintf(`
account = [
	{ email = "session@example.test" }, { email = "demoted@example.test", admin = false }, { email = "granted@example.test" },
	{ email = "member@example.test" }, { email = "group@example.test" }, { email = "kept@example.test" }, { email = "password@example.test" },
	{ email = "hours@example.test" }, { email = "ended@example.test" }, { email = "holiday@example.test" }, { email = "evicted@example.test" },
]
station = [
	{ id = 1 }, { id = %d, secret = %q }, { id = %d, homeassistant = "off" }, { id = %d, locks = 1, token = %q },
]
group = [ { name = "member", accounts = ["kept@example.test"] } ]
holiday = [ { name = "today", dates = ["%s..%s"] } ]
grant = [
	{ account = "session@example.test", stations = [1] }, { account = "kept@example.test", stations = [1, 8] },
	{ account = "password@example.test", stations = [1] }, { account = "evicted@example.test", stations = [1] },
	{ account = "member", stations = [1] },
	{ account = "hours@example.test", stations = [1], hours = "none" },
	{ account = "ended@example.test", stations = [1], until = 2020-01-01T00:00:00Z },
	{ account = "holiday@example.test", stations = [1], holidays = "none" },
]
`, rotated, secretGiven, limited, reduced, tokenAfter, today.AddDate(0, 0, -2).Format(time.DateOnly), today.AddDate(0, 0, 2).Format(time.DateOnly))
	file := filepath.Join(r.T.TempDir(), "site.toml")
	err := os.WriteFile(file, []byte(text), 0o600)
	_, revoked := r.Admin.Revoke(ctx, "session@example.test")
	_, replaced := r.Admin.SetPassword(ctx, "password@example.test", adminapi.NewPassword{Password: gatewaytest.Password + " anew"})
	if err := errors.Join(err, revoked, replaced, r.Admin.RemoveToken(ctx, "lobby")); err != nil {
		r.T.Fatal(err)
	}
	if out, status := r.Run("apply", "--prune", "--force", file); status != 0 {
		r.T.Fatalf("apply: %d %s", status, out)
	}
	logIn(r.Program, "evicted@example.test")
}

// gone checks that everything that was revoked is, and nothing else.
func (h *lostHouse) gone(r *rights) {
	r.T.Helper()
	r.checkGone("after the restart")
	if got := logInWith(r.Program, "password@example.test", gatewaytest.Password); got.Status != http.StatusUnauthorized {
		r.T.Errorf("the replaced password: %d %s", got.Status, got.Body)
	}
	if st, err := r.Admin.Station(r.T.Context(), reduced); err != nil || len(st.Locks) != 1 {
		r.T.Errorf("the station that has lost a lock: %+v, %v", st, err)
	}
	if got := r.Do(http.MethodGet, "/v1/stations/"+tokenBefore, logIn(r.Program, "kept@example.test"), nil); got.Status != http.StatusNotFound {
		r.T.Errorf("the replaced station token: %d %s", got.Status, got.Body)
	}
	if access := logIn(r.Program, "session@example.test"); r.Do(http.MethodGet, "/v1/stations/"+r.station, access, nil).Status != http.StatusOK {
		r.T.Error("a grant that was kept is gone")
	}
}

// copyOf returns a copy of a folder.
func copyOf(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	check(t, os.CopyFS(path, os.DirFS(folder)))
	check(t, os.Chmod(path, 0o700)) //nolint:gosec // a directory
	return path
}
