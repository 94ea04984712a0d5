package attacktest_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
)

// What was possible: a revocation that the database did not have yet was lost by a backup, by a
// flipped bit, by a file that a full disk had not let the gateway create, or by a database that was damaged before
// its copy was written again. Nothing that is done between a revocation and the next start undoes it
// without a word.
func TestAttack_pendingRevocations(t *testing.T) {
	need.Root(t)
	if !isolated(t, "mke2fs", "tune2fs") {
		return
	}
	for name, attack := range pendingAttacks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(newPending(t))
		})
	}
}

// pendingAttacks are what an attacker has done, by their names.
func pendingAttacks() map[string]func(*pending) {
	return map[string]func(*pending){
		"backup of the stopped gateway": func(a *pending) {
			a.fill()
			a.revoke(true)
			_ = a.Stop() // it names what is not stored
			a.backUp()
			a.restore()
			a.gone()
		},
		"backup of a gateway that has room again": func(a *pending) {
			a.fill()
			a.revoke(true)
			check(a.t, os.Remove(a.filler))
			a.backUp()
			_ = a.Stop() // it names what is not stored
			a.restore()
			a.gone()
		},
		"restore of an earlier backup": func(a *pending) {
			a.backUp()
			a.fill()
			a.revoke(true)
			_ = a.Stop() // it names what is not stored
			check(a.t, os.Remove(a.filler))
			a.again()
			a.gone()
		},
		"damage before the copy is written": func(a *pending) {
			check(a.t, a.Stop()) // the copy has the account now
			a.Start()
			a.AwaitReady()
			a.revoke(false)
			a.Kill()
			check(a.t, os.Truncate(filepath.Join(a.Data, "gatehouse.db"), 0))
			removeLog(a.t, a.Data)
			a.Start()
			a.AwaitReady()
			a.gone()
		},
		"a start without room": func(a *pending) {
			check(a.t, a.Stop())
			check(a.t, os.Remove(filepath.Join(a.Data, "gatehouse.db.revocations")))
			fill(a.t, a.filler)
			a.Start()
			a.AwaitReady()
			check(a.t, os.Remove(a.filler))
			a.Await("a change is stored", func() bool {
				_, err := a.Admin.SetAdmin(a.t.Context(), gatewaytest.Email, true)
				return err == nil
			})
			a.fill()
			a.revoke(true)
			a.Kill()
			check(a.t, os.Remove(a.filler))
			a.Start()
			a.AwaitReady()
			a.gone()
		},
	}
}

// pending is a gateway whose disk can be filled.
type pending struct {
	*gatewaytest.Program
	t                     *testing.T
	disk, filler, medium  string
	station               string // its token
	access, refresh, boss string
}

func newPending(t *testing.T) *pending {
	t.Helper()
	disk := ext4(t)
	a := &pending{t: t, disk: disk, filler: filepath.Join(disk, "fill"), medium: filepath.Join(t.TempDir(), "a.backup")}
	socket := filepath.Join(t.TempDir(), "admin.sock")
	a.Program = gatewaytest.Exec(t, gatewaytest.Launch{
		Data: filepath.Join(disk, "data"), Socket: socket, Env: []string{"GATEHOUSE_ADMIN_SOCKET=" + socket, "GATEHOUSE_PASSPHRASE=" + passphrase},
	})
	a.AddAccount()
	a.station = a.Enrol(1042).StationToken
	_, err := a.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: "boss@example.test", Password: gatewaytest.Password, Admin: true})
	check(t, err)
	a.access, a.refresh = a.Login()
	a.boss = logIn(a.Program, "boss@example.test")
	return a
}

// fill fills the disk and waits until the gateway sees that.
func (a *pending) fill() {
	a.T.Helper()
	fill(a.t, a.filler)
	a.Await("the storage fails", func() bool {
		a.Unlock(a.access, a.station)
		return raised(a.Program, health.StorageFailing)
	})
}

// revoke ends the sessions of the account, withdraws its grant and removes the administrator.
func (a *pending) revoke(unavailable bool) {
	a.T.Helper()
	_, err := a.Admin.Revoke(a.T.Context(), gatewaytest.Email)
	for what, err := range map[string]error{
		"session": err, "grant": a.Admin.Ungrant(a.T.Context(), gatewaytest.Email, "1042"),
		"account": a.Admin.RemoveAccount(a.T.Context(), "boss@example.test"),
	} {
		if unavailable != fault.Is(err, fault.Unavailable) {
			a.T.Errorf("%s: %v", what, err)
		}
	}
}

// gone checks that what was revoked is.
func (a *pending) gone() {
	a.T.Helper()
	for token, path := range map[string]string{a.access: "/v1/stations/" + a.station, a.boss: "/admin/v1/accounts"} {
		if got := a.Do(http.MethodGet, path, token, nil); got.Status != http.StatusUnauthorized {
			a.T.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	if got := a.Do(http.MethodPost, "/v1/auth/refresh", "", tokenBody(a.t, a.refresh)); got.Status != http.StatusUnauthorized {
		a.T.Errorf("a revoked session is refreshed: %d", got.Status)
	}
	accounts, err := a.Admin.Accounts(a.T.Context())
	if err != nil || len(accounts) != 1 {
		a.T.Errorf("accounts: %+v, %v", accounts, err)
	}
	fresh := logIn(a.Program, gatewaytest.Email)
	if got := a.Do(http.MethodGet, "/v1/stations/"+a.station, fresh, nil); got.Status != http.StatusNotFound {
		a.T.Errorf("the grant: %d", got.Status)
	}
}

func (a *pending) backUp() {
	a.T.Helper()
	a.mustRun("backup", a.medium)
}

// restore restores the backup to a blank board and starts its gateway.
func (a *pending) restore() {
	a.T.Helper()
	a.Data = filepath.Join(a.T.TempDir(), "blank")
	check(a.t, os.Mkdir(a.Data, 0o700))
	a.again()
}

// again restores the backup in the place of the gateway that was stopped.
func (a *pending) again() {
	a.T.Helper()
	a.mustRun("restore", "--no-config", "--keep-sessions", a.medium)
	a.Start()
	a.AwaitReady()
}

func (a *pending) mustRun(args ...string) {
	a.T.Helper()
	if out, status := a.Run(args...); status != 0 {
		a.T.Fatalf("%q: %d %s", args, status, out)
	}
}
