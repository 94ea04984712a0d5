package station_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

func TestService_Enrol_generates(t *testing.T) {
	f := setup(t, 0)
	got, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 1042, Name: "  North entrance ", Locks: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[A-Z2-7]{26}$`).MatchString(got.Secret.Reveal()) {
		t.Errorf("the secret is not 26 characters of base32: %q", got.Secret.Reveal())
	}
	if !regexp.MustCompile(`^[a-z2-7]{26}$`).MatchString(got.Token.Reveal()) {
		t.Errorf("the token is not 26 characters of lower-case base32: %q", got.Token.Reveal())
	}
	if strings.EqualFold(got.Secret.Reveal(), got.Token.Reveal()) {
		t.Error("secret and token are the same word")
	}
	if got.Station.Name != "North entrance" || got.Station.Token != got.Token {
		t.Errorf("the station is %+v", got.Station)
	}
	if !f.SecretMatches(1042, got.Secret) || f.SecretMatches(1042, got.Token) {
		t.Error("the secret given out is not the station's")
	}
	if stored := f.store.stations[1042]; stored != got.Station {
		t.Errorf("stored %+v, want %+v", stored, got.Station)
	}
	want := site.Record{Kind: site.KindStationAdded, Facts: site.Facts{Origin: site.Admin, By: admin().Name, Station: 1042, Detail: "2 locks"}}
	if r := f.store.lastAdmin(t); r != want {
		t.Errorf("recorded %+v, want %+v", r, want)
	}
	if events, _ := f.EventsSince(0, 0); len(events) != 1 || events[0].State.ID != 1042 {
		t.Errorf("the watchers see %+v", events)
	}
}

func TestService_Enrol_takesGivenWords(t *testing.T) {
	f := setup(t, 0)
	for i, r := range []station.EnrolRequest{
		{Locks: 1, Secret: "twelve chars", Token: "8-._~AZ9"},
		{Locks: site.MaxLocks, Secret: site.Secret(strings.Repeat("~", 128)), Token: site.Secret(strings.Repeat("z", 128))},
		{ID: site.MaxStationID, Locks: 1, Name: strings.Repeat("ü", 100), Secret: secret},
	} {
		if r.ID == 0 {
			r.ID = site.StationID(i + 1)
		}
		got, err := f.Enrol(t.Context(), admin(), r)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if got.Secret != r.Secret || r.Token != "" && got.Token != r.Token || !f.SecretMatches(r.ID, r.Secret) {
			t.Errorf("%+v: the given words were not taken", r)
		}
		if st, ok := f.ByToken(got.Token); !ok || st.ID != r.ID {
			t.Errorf("%+v: the token does not name the station", r)
		}
	}
}

func TestService_Enrol_invalid(t *testing.T) {
	f := setup(t, 0)
	good := station.EnrolRequest{ID: 1, Name: "Gate", Locks: 1, Secret: secret, Token: token}
	for name, spoil := range map[string]func(*station.EnrolRequest){
		"id zero":            func(r *station.EnrolRequest) { r.ID = 0 },
		"id negative":        func(r *station.EnrolRequest) { r.ID = -4 },
		"id too large":       func(r *station.EnrolRequest) { r.ID = site.MaxStationID + 1 },
		"no locks":           func(r *station.EnrolRequest) { r.Locks = 0 },
		"too many locks":     func(r *station.EnrolRequest) { r.Locks = site.MaxLocks + 1 },
		"name too long":      func(r *station.EnrolRequest) { r.Name = strings.Repeat("n", 101) },
		"name with control":  func(r *station.EnrolRequest) { r.Name = "Gate\x1b[2J" },
		"name with newline":  func(r *station.EnrolRequest) { r.Name = "Gate\nGate" },
		"name not UTF-8":     func(r *station.EnrolRequest) { r.Name = "Gate\xff" },
		"secret too short":   func(r *station.EnrolRequest) { r.Secret = "seven77" },
		"secret too long":    func(r *station.EnrolRequest) { r.Secret = site.Secret(strings.Repeat("s", 129)) },
		"secret not ASCII":   func(r *station.EnrolRequest) { r.Secret = "schlüsselwort" },
		"secret with tab":    func(r *station.EnrolRequest) { r.Secret = "secret\tsecret" },
		"token too short":    func(r *station.EnrolRequest) { r.Token = "seven77" },
		"token too long":     func(r *station.EnrolRequest) { r.Token = site.Secret(strings.Repeat("t", 129)) },
		"token with slash":   func(r *station.EnrolRequest) { r.Token = "token/with" },
		"token with percent": func(r *station.EnrolRequest) { r.Token = "token%2Fwith" },
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			spoil(&r)
			_, err := f.Enrol(t.Context(), admin(), r)
			wantKind(t, err, fault.Invalid)
			for _, word := range []site.Secret{r.Secret, r.Token} {
				if strings.Contains(err.Error(), word.Reveal()) {
					t.Errorf("the error tells a secret: %v", err)
				}
			}
		})
	}
	if f.store.writeCount() != 0 || len(f.Stations()) != 0 {
		t.Error("an invalid request reached the store")
	}
}

func TestService_Enrol_conflict(t *testing.T) {
	f := setup(t, 1)
	before := f.store.writeCount()
	_, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 1, Locks: 1})
	wantKind(t, err, fault.Conflict)
	_, err = f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 2, Locks: 1, Token: token})
	wantKind(t, err, fault.Conflict)
	if f.store.writeCount() != before {
		t.Error("a conflict that was known reached the store")
	}
	if st, ok := f.ByToken(token); !ok || st.ID != 1 {
		t.Errorf("the token now names %+v", st)
	}
}

// TestService_storeFails proves that what cannot be stored and revokes nothing changes nothing.
func TestService_storeFails(t *testing.T) {
	f := setup(t, 1)
	revoked := 0
	f.OnRevoked(func(site.StationID) { revoked++ })
	f.connect(t)
	before, events := f.state(t, 1), f.Latest()
	st, _ := f.Station(1)
	f.store.failWith(fault.New(fault.Unavailable, "The disk is full"))
	for name, change := range map[string]func() error{
		"enrol": func() error {
			_, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 2, Locks: 1})
			return err
		},
		"update": func() error {
			_, err := f.Update(t.Context(), admin(), 1, patch("x", 1, site.HomeAssistantUnlock))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantKind(t, change(), fault.Unavailable) })
	}
	if now, ok := f.ByToken(token); !ok || now != st || len(f.Stations()) != 1 || !f.SecretMatches(1, secret) {
		t.Errorf("the station became %+v", now)
	}
	if now := f.state(t, 1); now.Status != before.Status || len(now.Locks) != 2 || f.Latest() != events || revoked != 0 {
		t.Errorf("the state became %+v; %d connections were ended", now, revoked)
	}
}

// TestService_callerLeaves proves that memory and store stay in step when the
// caller leaves in the middle of a change.
func TestService_callerLeaves(t *testing.T) {
	f := setup(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	f.store.hook(func(inner context.Context) {
		cancel()
		if inner.Err() != nil {
			t.Error("the store is told that the caller has left")
		}
	})
	if err := f.Remove(ctx, admin(), 1); err != nil {
		t.Errorf("the change failed: %v", err)
	}
	if _, ok := f.Station(1); ok || len(f.store.stations) != 0 {
		t.Error("the station is still there")
	}
	_, err := f.Enrol(ctx, admin(), station.EnrolRequest{ID: 2, Locks: 1})
	wantKind(t, err, fault.Unavailable)
	if !errors.Is(err, context.Canceled) || len(f.store.stations) != 0 {
		t.Errorf("who had left before was served: %v", err)
	}
}

func TestService_Update(t *testing.T) {
	f := setup(t, 1)
	if err := f.Report(1, []byte(`{"locks":[{"lockId":"lock-1","status":"locked"},{"lockId":"lock-2","status":"jammed"}]}`)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		locks  int
		detail string // empty: nothing changes
		event  bool
	}{
		{"North entrance", 2, "", false},
		{" North entrance ", 2, "", false},
		{"South entrance", 2, `name "South entrance"`, false},
		{"South entrance", 1, "1 lock", true},
		{"", 3, `name "", 3 locks`, true},
	} {
		writes, events := f.store.writeCount(), f.Latest()
		changed, err := f.Update(t.Context(), admin(), 1, patch(step.name, step.locks, site.HomeAssistantState))
		if err != nil || changed != (step.detail != "") {
			t.Fatalf("%+v: changed %v, %v", step, changed, err)
		}
		if !changed {
			if f.store.writeCount() != writes {
				t.Errorf("%+v: the store was written", step)
			}
			continue
		}
		want := site.Facts{Origin: site.Admin, By: admin().Name, Station: 1, Detail: step.detail}
		if r := f.store.lastAdmin(t); r.Kind != site.KindStationChanged || r.Facts != want {
			t.Errorf("%+v: recorded %+v", step, r)
		}
		if got := f.Latest() != events; got != step.event {
			t.Errorf("%+v: event %v", step, got)
		}
		if st := f.store.stations[1]; st.Name != step.name || st.Locks != step.locks || st.Token != token {
			t.Errorf("%+v: stored %+v", step, st)
		}
	}
	st := f.state(t, 1)
	if len(st.Locks) != 3 || st.Locks[0].Status != site.Locked || st.Locks[1].Status != site.Unknown || !st.Locks[1].LastUpdated.IsZero() {
		t.Errorf("a lock that was removed and came back is remembered: %+v", st.Locks)
	}
	if !f.HasLock(1, 3) || f.HasLock(1, 4) || !f.SecretMatches(1, secret) {
		t.Error("the update did not reach the look-ups, or reached too far")
	}
}

func TestService_Update_refused(t *testing.T) {
	f := setup(t, 1)
	_, err := f.Update(t.Context(), admin(), 9, patch("x", 1, site.HomeAssistantState))
	wantKind(t, err, fault.NotFound)
	for _, locks := range []int{0, -1, site.MaxLocks + 1} {
		_, err = f.Update(t.Context(), admin(), 1, patch("x", locks, site.HomeAssistantState))
		wantKind(t, err, fault.Invalid)
	}
	_, err = f.Update(t.Context(), admin(), 1, patch("x\x00", 1, site.HomeAssistantState))
	wantKind(t, err, fault.Invalid)
	if st, _ := f.Station(1); st.Name != "North entrance" || st.Locks != 2 {
		t.Errorf("a refused update changed %+v", st)
	}
}

// TestService_Update_keepsGeneration proves that a new name ends no connection
// that is about to be.
func TestService_Update_keepsGeneration(t *testing.T) {
	f := setup(t, 1)
	generation, _ := f.Authenticate(1, secret)
	if _, err := f.Update(t.Context(), admin(), 1, patch("x", 1, site.HomeAssistantState)); err != nil {
		t.Fatal(err)
	}
	if err := f.setToken(t.Context(), 1, "another-token"); err != nil {
		t.Fatal(err)
	}
	if err := f.Connected(1, f.next(), generation, ""); err != nil {
		t.Errorf("refused: %v", err)
	}
}

func TestService_DraftToken(t *testing.T) {
	f := setup(t, 2)
	revoked := 0
	f.OnRevoked(func(site.StationID) { revoked++ })
	if err := f.setToken(t.Context(), 1, "another-token"); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.ByToken(token); ok {
		t.Error("the old token still names the station")
	}
	if st, ok := f.ByToken("another-token"); !ok || st.ID != 1 || st.Token != "another-token" {
		t.Errorf("the new token names %+v", st)
	}
	if r := f.store.lastAdmin(t); r.Kind != site.KindStationChanged || r.Detail != "station token changed" || r.By != admin().Name {
		t.Errorf("recorded %+v", r)
	}
	wantKind(t, f.setToken(t.Context(), 2, "another-token"), fault.Conflict)
	wantKind(t, f.setToken(t.Context(), 1, "a b c d e f"), fault.Invalid)
	if err := f.setToken(t.Context(), 2, token); err != nil {
		t.Errorf("a token that became free is refused: %v", err)
	}
	if revoked != 0 {
		t.Error("a new station token ended a connection")
	}
}

func TestService_Remove(t *testing.T) {
	f := setup(t, 2)
	f.connect(t)
	var revoked []site.StationID
	f.OnRevoked(func(id site.StationID) {
		revoked = append(revoked, id)
		f.Disconnected(id, f.last(), "the station was removed")
	})
	if err := f.Remove(t.Context(), admin(), 1); err != nil {
		t.Fatal(err)
	}
	if r := f.store.lastAdmin(t); r.Kind != site.KindStationRemoved || r.Station != 1 || r.By != admin().Name {
		t.Errorf("recorded %+v", r)
	}
	if len(revoked) != 1 || revoked[0] != 1 {
		t.Errorf("ended the connections of %v", revoked)
	}
	_, known := f.Station(1)
	_, byToken := f.ByToken(token)
	_, state := f.State(1)
	if known || byToken || state || f.HasLock(1, 1) || f.SecretMatches(1, secret) || f.Online() != 0 || len(f.Stations()) != 1 {
		t.Errorf("the station is still there: %v %v %v, %d online", known, byToken, state, f.Online())
	}
	events, _ := f.EventsSince(0, 1)
	if last := events[len(events)-1]; last.State.Status != site.Offline {
		t.Errorf("the last that is seen of the station is %+v", last)
	}
	wantKind(t, f.Remove(t.Context(), admin(), 1), fault.NotFound)
	wantKind(t, f.Report(1, []byte(`{}`)), fault.NotFound)
	f.Heard(1)
	f.LockReported(1, 1, site.Locked)
}

// TestService_Remove_thenEnrol proves that nothing of the removed station clings
// to the new one.
func TestService_Remove_thenEnrol(t *testing.T) {
	f := setup(t, 1)
	f.connect(t)
	if err := f.Report(1, []byte(`{"batteryVoltage":4,"firmware":"1","locks":[{"lockId":"1","status":"locked"}]}`)); err != nil {
		t.Fatal(err)
	}
	generation, _ := f.Authenticate(1, secret)
	if err := f.Remove(t.Context(), admin(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 1, Locks: 1, Secret: secret, Token: token}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, f.Connected(1, f.next(), generation, ""), fault.Unauthenticated)
	st := f.state(t, 1)
	if st.Status != site.Offline || st.BatteryVoltage != nil || !st.LastConnection.IsZero() || st.Locks[0].Status != site.Unknown || f.Firmware(1) != "" {
		t.Errorf("the new station begins with %+v", st)
	}
}
