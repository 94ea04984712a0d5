package attacktest_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
)

// What was possible: what was revoked while the disk took no writes was back after a restart,
// an orderly one too: sessions, grants and tokens opened doors, a removed administrator was
// one. A revocation stays in effect over restarts until it is stored, on a full disk by the file
// beside the database, on one that takes no writes by that in the runtime directory.
func TestAttack_revocationsOverRestart(t *testing.T) {
	need.Root(t)
	if !isolated(t, "mke2fs", "tune2fs", "chattr") {
		return
	}
	for name, dead := range map[string]bool{"full": false, "dead": true} {
		for end, stop := range map[string]func(*gatewaytest.Program){
			"SIGTERM": func(p *gatewaytest.Program) { _ = p.Stop() },
			"SIGKILL": (*gatewaytest.Program).Kill,
		} {
			t.Run(name+"/"+end, func(t *testing.T) {
				t.Parallel()
				keepsRevocations(t, dead, stop)
			})
		}
	}
}

// keepsRevocations revokes on a full disk, of which a dead one does not take the file beside
// the database either, and starts the gateway again.
func keepsRevocations(t *testing.T, dead bool, stop func(*gatewaytest.Program)) {
	disk := ext4(t)
	launch, filler := gatewaytest.Launch{Data: filepath.Join(disk, "data")}, filepath.Join(disk, "fill")
	file := filepath.Join(launch.Data, "gatehouse.db.revocations")
	if dead {
		launch.Env = []string{"RUNTIME_DIRECTORY=" + t.TempDir()}
	}
	p := gatewaytest.Exec(t, launch)
	ctx := t.Context()
	var errs []error
	note := func(_ any, err error) { errs = append(errs, err) }
	issued, err := p.Admin.AddStation(ctx, adminapi.NewStation{StationID: 1, Locks: 1})
	note(issued, err)
	access := make(map[string]string)
	for _, who := range []string{"session", "removed", "demoted", "granted", "member", "group"} {
		email := who + "@example.test"
		note(p.Admin.AddAccount(ctx, adminapi.NewAccount{Email: email, Password: gatewaytest.Password, Admin: who == "removed" || who == "demoted"}))
		access[who] = logIn(p, email)
	}
	note(p.Admin.Grant(ctx, "granted@example.test", "1", adminapi.GrantTerms{}))
	note(p.Admin.Grant(ctx, "session@example.test", "1", adminapi.GrantTerms{}))
	for _, who := range []string{"member", "group"} {
		of := adminapi.Members{Accounts: []site.Email{site.Email(who + "@example.test")}}
		note(p.Admin.ChangeGroup(ctx, site.GroupName(who), adminapi.GroupPatch{Add: of}))
		note(p.Admin.Grant(ctx, who, "1", adminapi.GrantTerms{}))
	}
	token, err := p.Admin.AddToken(ctx, adminapi.NewToken{Name: "lobby", Scopes: site.Scope{Unlock: []site.StationID{1}}})
	note(token, err)
	access["token"] = token.Text
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	check := func(when string, want map[string]int) {
		t.Helper()
		for who, status := range want {
			path := "/v1/stations/" + issued.StationToken
			if who == "removed" || who == "demoted" {
				path = "/admin/v1/accounts"
			}
			if got := p.Do(http.MethodGet, path, access[who], nil).Status; got != status {
				t.Errorf("%s: %s: status %d, want %d", when, who, got, status)
			}
		}
	}
	check("before", map[string]int{"session": 200, "removed": 200, "demoted": 200, "granted": 200, "member": 200, "group": 200, "token": 200})
	fill(t, filler)
	if dead {
		run(t, "chattr", "+i", file)
		t.Cleanup(func() { run(t, "chattr", "-i", file) })
	}
	p.Await("the storage fails", func() bool {
		p.Unlock(access["granted"], issued.StationToken)
		return raised(p, health.StorageFailing)
	})
	_, revoked := p.Admin.Revoke(ctx, "session@example.test")
	_, demoted := p.Admin.SetAdmin(ctx, "demoted@example.test", false)
	_, left := p.Admin.ChangeGroup(ctx, "member", adminapi.GroupPatch{Remove: adminapi.Members{Accounts: []site.Email{"member@example.test"}}})
	for what, err := range map[string]error{
		"session": revoked, "demoted": demoted, "member": left,
		"removed": p.Admin.RemoveAccount(ctx, "removed@example.test"), "granted": p.Admin.Ungrant(ctx, "granted@example.test", "1"),
		"group": p.Admin.RemoveGroup(ctx, "group"), "token": p.Admin.RemoveToken(ctx, "lobby"),
	} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	gone := map[string]int{"session": 401, "removed": 401, "demoted": 403, "granted": 404, "member": 404, "group": 404, "token": 401}
	check("at once", gone)
	for range 2 {
		stop(p)
		p.Start()
		p.AwaitReady()
		check("after a restart", gone)
		if !raised(p, health.RevocationsUnstored) {
			t.Error("no finding counts the revocations that are not stored")
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	p.Await("they are stored", func() bool {
		_, _ = p.Admin.ChangeGroup(ctx, "member", adminapi.GroupPatch{Remove: adminapi.Members{Accounts: []site.Email{"member@example.test"}}})
		return !raised(p, health.RevocationsUnstored)
	})
	// Legitimately added again, it outlives what the slate has held.
	if _, err := p.Admin.ChangeGroup(ctx, "member", adminapi.GroupPatch{Add: adminapi.Members{Accounts: []site.Email{"member@example.test"}}}); err != nil {
		t.Error(err)
	}
	gone["member"] = 200
	p.Kill()
	p.Start()
	p.AwaitReady()
	check("once they are stored", gone)
}

// logIn returns an access token.
func logIn(p *gatewaytest.Program, email string) string {
	p.T.Helper()
	body, err := json.Marshal(map[string]string{"email": email, "password": gatewaytest.Password})
	if err != nil {
		p.T.Fatal(err)
	}
	answer := p.Do(http.MethodPost, "/v1/auth/login", "", body)
	var tokens struct{ AccessToken string }
	if err := json.Unmarshal(answer.Body, &tokens); err != nil || answer.Status != http.StatusOK {
		p.T.Fatalf("login: %d %s", answer.Status, answer.Body)
	}
	return tokens.AccessToken
}
