package station_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"gatehouse/internal/access/amend"
	"gatehouse/internal/door/station"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// slate is an [amend.Slate] in memory.
type slate struct{ held []byte }

func (s *slate) Room() int                  { return 1 << 20 }
func (s *slate) Hold(content []byte) error  { s.held = content; return nil }
func (s *slate) Save(context.Context) error { return nil }

// copied is an [amend.Copy] that has everything.
type copied struct{}

func (copied) Copied() uint64 { return math.MaxUint64 }
func (copied) CopyNow()       {}

// resume begins a run of the process in which s holds revocations.
func (f *fixture) resume(t *testing.T, s *slate, stored uint64) {
	t.Helper()
	c := config(f.store, f.clock)
	f.changes = c.Changes
	f.Service = open(t, c)
	if err := f.changes.Resume(t.Context(), s, s.held, stored, copied{}, func(amend.Held) {}); err != nil {
		t.Fatal(err)
	}
}

// revocation revokes something of station 1, and reports whether that is in effect.
type revocation struct {
	revoke  func(context.Context, *fixture) error
	revoked func(*fixture) bool
	ends    bool // the live connection
}

func revocations() map[string]revocation {
	return map[string]revocation{
		"removed": {
			func(ctx context.Context, f *fixture) error { return f.Remove(ctx, admin(), 1) },
			func(f *fixture) bool {
				_, known := f.Station(1)
				_, named := f.ByToken(token)
				_, state := f.State(1)
				_, in := f.Authenticate(1, secret)
				return !known && !named && !state && !in && !f.HasLock(1, 1) && len(f.Stations()) == 1
			}, true,
		},
		"rotated": {
			func(ctx context.Context, f *fixture) error { _, err := f.Rotate(ctx, admin(), 1); return err },
			func(f *fixture) bool { _, in := f.Authenticate(1, secret); return !in }, true,
		},
		"lower mode": {
			func(ctx context.Context, f *fixture) error {
				_, err := f.Update(ctx, admin(), 1, patch("", 1, site.HomeAssistantOff))
				return err
			},
			func(f *fixture) bool { st, _ := f.Station(1); return st.HomeAssistant == site.HomeAssistantOff }, false,
		},
	}
}

// TestService_revokes_storeFails proves that what is revoked is revoked at once and after a
// restart, and once it is stored.
func TestService_revokes_storeFails(t *testing.T) {
	for name, c := range revocations() {
		t.Run(name, func(t *testing.T) {
			f, s, ended := setup(t, 2), new(slate), 0
			if _, err := f.Update(t.Context(), admin(), 1, patch("", 2, site.HomeAssistantUnlock)); err != nil {
				t.Fatal(err)
			}
			f.resume(t, s, 0)
			f.OnRevoked(func(site.StationID) { ended++ })
			f.connect(t)
			generation, _ := f.Authenticate(1, secret)
			check := func(when string) {
				t.Helper()
				if !c.revoked(f) {
					t.Errorf("%s it is not in effect", when)
				}
			}
			full := fault.New(fault.Unavailable, "The disk is full")
			f.store.failWith(full)
			wantKind(t, c.revoke(t.Context(), f), fault.Unavailable)
			check("at once")
			if err := f.Connected(1, f.next(), generation, ""); (err != nil) != c.ends || (ended == 1) != c.ends {
				t.Errorf("%d connections ended; the next one: %v", ended, err)
			}
			_, err := f.Enrol(t.Context(), admin(), station.EnrolRequest{ID: 1, Locks: 1, Secret: secret})
			wantKind(t, err, fault.Unavailable)

			f.store.failWith(nil)
			f.resume(t, s, 0)
			f.store.failWith(full)
			check("after a restart")
			_, err = f.Update(t.Context(), admin(), 2, patch("Renamed", 1, site.HomeAssistantState))
			wantKind(t, err, fault.Unavailable)
			check("after another change")

			f.store.failWith(nil)
			if err := f.changes.Settle(t.Context()); err != nil || len(s.held) != 0 {
				t.Errorf("held %s: %v", s.held, err)
			}
			check("once it is stored")
			f.agree(t)
			f.resume(t, s, 0)
			check("after a restart then")
		})
	}
}

// A change of the name, asked for before the mode of Home Assistant was lowered, leaves it low.
func TestService_Update_renameBesideLower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, 1)
		if _, err := f.Update(t.Context(), admin(), 1, patch("", 1, site.HomeAssistantUnlock)); err != nil {
			t.Fatal(err)
		}
		_, release := f.hold()
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = f.Update(t.Context(), admin(), 1, station.Patch{Locks: new(2)}) })
		synctest.Wait()
		wg.Go(func() { _, _ = f.Update(t.Context(), admin(), 1, station.Patch{Name: new("Renamed")}) })
		synctest.Wait()
		wg.Go(func() {
			_, _ = f.Update(t.Context(), admin(), 1, station.Patch{HomeAssistant: new(site.HomeAssistantOff)})
		})
		synctest.Wait()
		release()
		wg.Wait()
		if st, _ := f.Station(1); st.HomeAssistant != site.HomeAssistantOff || st.Name != "Renamed" || st.Locks != 2 {
			t.Errorf("%+v", st)
		}
		f.agree(t)
	})
}

// TestService_revokes_overlap proves that what is revoked while an update of the station is
// being stored stays revoked.
func TestService_revokes_overlap(t *testing.T) {
	for name, c := range revocations() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setup(t, 2)
				f.OnRevoked(func(site.StationID) {
					if !c.revoked(f) {
						t.Error("a connection ended while it was not in effect")
					}
				})
				inside, release := f.hold()
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = f.Update(t.Context(), admin(), 1, patch("Renamed", 1, site.HomeAssistantUnlock)) })
				synctest.Wait()
				wg.Go(func() { _ = c.revoke(t.Context(), f) })
				synctest.Wait()
				if !c.revoked(f) || inside.Load() != 1 {
					t.Error("it is not in effect while the update is stored")
				}
				release()
				wg.Wait()
				if !c.revoked(f) {
					t.Error("the update undid it")
				}
				f.agree(t)
			})
		})
	}
}

// TestService_Rotate_again proves that a rotation that could not be stored is completed by
// the next one.
func TestService_Rotate_again(t *testing.T) {
	f := setup(t, 1)
	f.store.failWith(fault.New(fault.Unavailable, "The disk is full"))
	for range 2 {
		_, err := f.Rotate(t.Context(), admin(), 1)
		wantKind(t, err, fault.Unavailable)
	}
	f.store.failWith(nil)
	fresh, err := f.Rotate(t.Context(), admin(), 1)
	if err != nil || !f.SecretMatches(1, fresh) || f.SecretMatches(1, secret) {
		t.Errorf("the new secret is refused: %v", err)
	}
	var details []string
	for _, r := range f.store.admin {
		details = append(details, r.Detail)
	}
	if !slices.Equal(details, []string{"2 locks", "the secret was revoked", "a new secret was generated"}) {
		t.Errorf("recorded %q", details)
	}
	f.agree(t)
}

// TestService_Update_lower proves that a lower mode is stored by itself, once, and a name
// with it is stored too; of a request that is refused nothing is.
func TestService_Update_lower(t *testing.T) {
	f := setup(t, 1)
	_, err := f.Update(t.Context(), admin(), 1, patch("North", site.MaxLocks+1, site.HomeAssistantOff))
	wantKind(t, err, fault.Invalid)
	if st, _ := f.Station(1); st.HomeAssistant != site.HomeAssistantState {
		t.Error("a refused update lowered the mode")
	}
	for _, want := range []bool{true, false} {
		if changed, err := f.Update(t.Context(), admin(), 1, patch("North", 2, site.HomeAssistantOff)); changed != want || err != nil {
			t.Errorf("changed %v: %v", changed, err)
		}
	}
	if n := f.store.writeCount(); n != 3 {
		t.Errorf("%d writes", n)
	}
	if st, _ := f.Station(1); st.HomeAssistant != site.HomeAssistantOff || st.Name != "North" {
		t.Errorf("changed to %+v", st)
	}
	f.agree(t)
}
