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

// rights is what may be revoked on a gateway: a station with its token, and the logins and access tokens of
// others by what is revoked of them.
type rights struct {
	*gatewaytest.Program
	station string
	logins  map[site.StationID]adminapi.MQTTLogin
	access  map[string]string
	gone    map[string]int // the status of a request with an access token once it is revoked
}

func newRights(p *gatewaytest.Program) *rights {
	p.T.Helper()
	ctx := p.T.Context()
	r := &rights{
		Program: p, logins: make(map[site.StationID]adminapi.MQTTLogin), access: make(map[string]string),
		gone: map[string]int{"session": 401, "removed": 401, "demoted": 403, "granted": 404, "member": 404, "group": 404, "token": 401},
	}
	var errs []error
	note := func(_ any, err error) { errs = append(errs, err) }
	issued, err := p.Admin.AddStation(ctx, adminapi.NewStation{StationID: 1, Locks: 1})
	note(issued, err)
	r.station = issued.StationToken
	for id := removed; id <= limited; id++ {
		enrolled, err := p.Admin.AddStation(ctx, adminapi.NewStation{StationID: id, Locks: 1})
		note(enrolled, err)
		r.logins[id] = enrolled.MQTT
	}
	note(p.Admin.UpdateStation(ctx, limited, adminapi.StationPatch{HomeAssistant: new(site.HomeAssistantUnlock)}))
	for who := range r.gone {
		if who != "token" {
			note(nil, r.add(who))
		}
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
	r.access["token"] = token.Text
	if err := errors.Join(errs...); err != nil {
		p.T.Fatal(err)
	}
	return r
}

// add adds an account and logs it in.
func (r *rights) add(who string) error {
	r.T.Helper()
	email := who + "@example.test"
	_, err := r.Admin.AddAccount(r.T.Context(), adminapi.NewAccount{Email: email, Password: gatewaytest.Password, Admin: who == "removed" || who == "demoted"})
	if err == nil {
		r.access[who] = logIn(r.Program, email)
	}
	return err
}

// check checks the status of a request with each access token.
func (r *rights) check(when string, want func(who string) int) {
	r.T.Helper()
	for who, token := range r.access {
		path := "/v1/stations/" + r.station
		if who == "removed" || who == "demoted" {
			path = "/admin/v1/accounts"
		}
		if got := r.Do(http.MethodGet, path, token, nil).Status; got != want(who) {
			r.T.Errorf("%s: %s: status %d, want %d", when, who, got, want(who))
		}
	}
}

// checkThere checks that nothing is revoked, and checkGone that everything is.
func (r *rights) checkThere() {
	r.T.Helper()
	r.check("before", func(string) int { return http.StatusOK })
}

func (r *rights) checkGone(when string) {
	r.T.Helper()
	r.check(when, func(who string) int { return r.gone[who] })
	for id, mode := range map[site.StationID]site.HomeAssistantMode{removed: "", rotated: site.HomeAssistantState, limited: site.HomeAssistantOff} {
		if st, err := r.Admin.Station(r.T.Context(), id); st.HomeAssistant != mode || fault.Is(err, fault.NotFound) != (id == removed) {
			r.T.Errorf("%s: station %d: %+v, %v", when, id, st, err)
		}
		if logsIn(r.Program, r.logins[id]) != (id == limited) {
			r.T.Errorf("%s: the login of station %d", when, id)
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
	p := newRights(gatewaytest.Exec(t, launch))
	ctx := t.Context()
	p.checkThere()
	fill(t, filler)
	if dead {
		run(t, "chattr", "+i", file)
		t.Cleanup(func() { run(t, "chattr", "-i", file) })
	}
	p.Await("the storage fails", func() bool {
		p.Unlock(p.access["granted"], p.station)
		return raised(p.Program, health.StorageFailing)
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
	p.checkGone("at once")
	for range 2 {
		stop(p.Program)
		p.Start()
		p.AwaitReady()
		p.checkGone("after a restart")
		if !raised(p.Program, health.RevocationsUnstored) {
			t.Error("no finding counts the revocations that are not stored")
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	p.Await("they are stored", func() bool {
		_, _ = p.Admin.ChangeGroup(ctx, "member", adminapi.GroupPatch{Remove: adminapi.Members{Accounts: []site.Email{"member@example.test"}}})
		return !raised(p.Program, health.RevocationsUnstored)
	})
	// Legitimately added again, it outlives what the slate has held.
	if _, err := p.Admin.ChangeGroup(ctx, "member", adminapi.GroupPatch{Add: adminapi.Members{Accounts: []site.Email{"member@example.test"}}}); err != nil {
		t.Error(err)
	}
	p.gone["member"] = 200
	again, err := p.Admin.Rotate(ctx, rotated)
	if err != nil {
		t.Error(err)
	}
	p.Kill()
	p.Start()
	p.AwaitReady()
	p.checkGone("once they are stored")
	if !logsIn(p.Program, again.MQTT) {
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
	answer := logInWith(p, email, gatewaytest.Password)
	var tokens struct{ AccessToken string }
	if err := json.Unmarshal(answer.Body, &tokens); err != nil || answer.Status != http.StatusOK {
		p.T.Fatalf("login: %d %s", answer.Status, answer.Body)
	}
	return tokens.AccessToken
}

func logInWith(p *gatewaytest.Program, email, password string) gatewaytest.Answer {
	p.T.Helper()
	body, err := json.Marshal(map[string]string{"email": email, "password": password})
	if err != nil {
		p.T.Fatal(err)
	}
	return p.Do(http.MethodPost, "/v1/auth/login", "", body)
}
