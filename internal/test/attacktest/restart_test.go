package attacktest_test

import (
	"encoding/json"
	"errors"
	"net"
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
// one; a station that was removed logged in, another one with the secret before its rotation, and Home
// Assistant opened a door that it was no longer allowed to. A revocation stays in effect over restarts until it is stored, on a full disk by the file
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

// The stations of which something is revoked.
const (
	removed site.StationID = iota + 2
	rotated
	limited
)

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
	stations := make(map[site.StationID]adminapi.MQTTLogin)
	for id := removed; id <= limited; id++ {
		enrolled, err := p.Admin.AddStation(ctx, adminapi.NewStation{StationID: id, Locks: 1})
		note(enrolled, err)
		stations[id] = enrolled.MQTT
	}
	note(p.Admin.UpdateStation(ctx, limited, adminapi.StationPatch{HomeAssistant: new(site.HomeAssistantUnlock)}))
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
	gone := map[string]int{"session": 401, "removed": 401, "demoted": 403, "granted": 404, "member": 404, "group": 404, "token": 401}
	checkGone := func(when string) {
		t.Helper()
		check(when, gone)
		for id, mode := range map[site.StationID]site.HomeAssistantMode{removed: "", rotated: site.HomeAssistantState, limited: site.HomeAssistantOff} {
			if st, err := p.Admin.Station(ctx, id); st.HomeAssistant != mode || fault.Is(err, fault.NotFound) != (id == removed) {
				t.Errorf("%s: station %d: %+v, %v", when, id, st, err)
			}
			if logsIn(p, stations[id]) != (id == limited) {
				t.Errorf("%s: the login of station %d", when, id)
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
	_, fresh := p.Admin.Rotate(ctx, rotated)
	_, lowered := p.Admin.UpdateStation(ctx, limited, adminapi.StationPatch{HomeAssistant: new(site.HomeAssistantOff)})
	_, left := p.Admin.ChangeGroup(ctx, "member", adminapi.GroupPatch{Remove: adminapi.Members{Accounts: []site.Email{"member@example.test"}}})
	for what, err := range map[string]error{
		"session": revoked, "demoted": demoted, "member": left,
		"station": p.Admin.RemoveStation(ctx, removed), "rotated": fresh, "mode": lowered,
		"removed": p.Admin.RemoveAccount(ctx, "removed@example.test"), "granted": p.Admin.Ungrant(ctx, "granted@example.test", "1"),
		"group": p.Admin.RemoveGroup(ctx, "group"), "token": p.Admin.RemoveToken(ctx, "lobby"),
	} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	checkGone("at once")
	for range 2 {
		stop(p)
		p.Start()
		p.AwaitReady()
		checkGone("after a restart")
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
	again, err := p.Admin.Rotate(ctx, rotated)
	if err != nil {
		t.Error(err)
	}
	p.Kill()
	p.Start()
	p.AwaitReady()
	checkGone("once they are stored")
	if !logsIn(p, again.MQTT) {
		t.Error("the new secret of a station is refused")
	}
}

// logsIn reports whether the gateway accepts the login of a station.
func logsIn(p *gatewaytest.Program, login adminapi.MQTTLogin) bool {
	p.T.Helper()
	conn, err := new(net.Dialer).DialContext(p.T.Context(), "tcp", p.MQTT)
	if err != nil {
		p.T.Fatal(err)
	}
	defer conn.Close()
	return (&gatewaytest.Station{T: p.T, Conn: conn, Login: login, Version: 4}).TryConnect() == nil
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
