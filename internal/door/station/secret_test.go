package station_test

import (
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

func TestService_Authenticate(t *testing.T) {
	f := setup(t, 2)
	if generation, ok := f.Authenticate(1, secret); !ok || generation == 0 {
		t.Errorf("the right secret: %d, %v", generation, ok)
	}
	for _, c := range []struct {
		id   site.StationID
		word site.Secret
	}{
		{1, ""},
		{1, secret[:len(secret)-1]},
		{1, secret + "x"},
		{1, site.Secret(strings.ToLower(string(secret)))},
		{1, site.Secret(strings.Repeat("x", 8000))},
		{2, secret},
		{9, secret},
		{0, ""},
	} {
		if generation, ok := f.Authenticate(c.id, c.word); ok || generation != 0 {
			t.Errorf("station %d with %q: %d, %v", c.id, c.word.Reveal(), generation, ok)
		}
		if f.SecretMatches(c.id, c.word) {
			t.Errorf("station %d: %q matches", c.id, c.word.Reveal())
		}
	}
}

// TestService_secretHash proves that the same secret is kept under different
// hashes, and that the secret itself is not among what is stored.
func TestService_secretHash(t *testing.T) {
	f := setup(t, 1)
	if _, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 2, Locks: 1, Secret: secret}); err != nil {
		t.Fatal(err)
	}
	a, b := f.store.stations[1].Secret, f.store.stations[2].Secret
	if a.Salt == b.Salt || a.Sum == b.Sum || a.Sum == ([32]byte{}) {
		t.Error("the hashes are not salted")
	}
}

// TestService_Rotate proves that the old secret is worth nothing at once.
func TestService_Rotate(t *testing.T) {
	f := setup(t, 1)
	var revoked []site.StationID
	f.OnRevoked(func(id site.StationID) {
		if f.SecretMatches(1, secret) {
			t.Error("the connection is ended while the old secret still holds")
		}
		revoked = append(revoked, id)
	})
	fresh, err := f.Rotate(t.Context(), admin(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(fresh) != 26 || f.SecretMatches(1, secret) || !f.SecretMatches(1, fresh) {
		t.Errorf("%q is the new secret: %v; the old one: %v", fresh.Reveal(), f.SecretMatches(1, fresh), f.SecretMatches(1, secret))
	}
	if !slices.Equal(revoked, []site.StationID{1, 1}) { // the old secret, and once more before the new one
		t.Errorf("ended the connections of %v", revoked)
	}
	if r := f.store.lastAdmin(t); r.Kind != site.KindStationRotated || r.Station != 1 || r.By != admin().Name || r.Detail != "a new secret was generated" {
		t.Errorf("recorded %+v", r)
	}
	if stored, now := f.store.stations[1], f.Stations()[0]; stored != now {
		t.Errorf("stored %+v, in memory %+v", stored, now)
	}
	_, err = f.Rotate(t.Context(), admin(), 9)
	wantKind(t, err, fault.NotFound)
}

// TestService_Rotate_race is the race of a connection that had authenticated when
// its secret was replaced.
func TestService_Rotate_race(t *testing.T) {
	for name, replace := range map[string]func(*fixture) error{
		"rotate":     func(f *fixture) error { _, err := f.Rotate(t.Context(), admin(), 1); return err },
		"set secret": func(f *fixture) error { return f.setSecret(t.Context(), 1, "another-secret") },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 1)
			generation, ok := f.Authenticate(1, secret)
			if !ok {
				t.Fatal("the right secret was refused")
			}
			if err := replace(f); err != nil {
				t.Fatal(err)
			}
			wantKind(t, f.Connected(1, f.next(), generation, "192.0.2.7:51000"), fault.Unauthenticated)
			if st := f.state(t, 1); st.Status != site.Offline || !st.LastConnection.IsZero() || f.Online() != 0 || len(f.store.journalled()) != 0 {
				t.Errorf("the refused connection left %+v", st)
			}
		})
	}
	t.Run("remove", func(t *testing.T) {
		f := setup(t, 1)
		generation, _ := f.Authenticate(1, secret)
		if err := f.Remove(t.Context(), admin(), 1); err != nil {
			t.Fatal(err)
		}
		wantKind(t, f.Connected(1, f.next(), generation, ""), fault.NotFound)
	})
}

func TestService_DraftSecret(t *testing.T) {
	f := setup(t, 1)
	revoked := 0
	f.OnRevoked(func(site.StationID) { revoked++ })
	if err := f.setSecret(t.Context(), 1, "another-secret"); err != nil {
		t.Fatal(err)
	}
	if revoked != 1 || f.SecretMatches(1, secret) || !f.SecretMatches(1, "another-secret") {
		t.Errorf("%d connections ended; the new secret holds: %v", revoked, f.SecretMatches(1, "another-secret"))
	}
	if r := f.store.lastAdmin(t); r.Kind != site.KindStationRotated || r.Detail != "a given secret was set" {
		t.Errorf("recorded %+v", r)
	}
	wantKind(t, f.setSecret(t.Context(), 1, "short"), fault.Invalid)
	if revoked != 1 {
		t.Error("a refused change ended a connection")
	}
}

// TestService_OnRevoked_unset proves that rotation works before anyone listens.
func TestService_OnRevoked_unset(t *testing.T) {
	f := setup(t, 1)
	if _, err := f.Rotate(t.Context(), admin(), 1); err != nil {
		t.Error(err)
	}
}
