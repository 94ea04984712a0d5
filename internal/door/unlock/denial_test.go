package unlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// A refused attempt has a record with who, where and why, whatever it came from.
func TestService_Unlock_denied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func() bool { return false }
		local := func(account site.AccountID, name string) site.Actor {
			return site.Actor{Origin: site.Local, Account: account, Name: name, Session: "s"}
		}
		for want, req := range map[string]unlock.Request{
			"local other  7 lock-1 no grant":                    {Actor: local("other", ""), Station: 7, Lock: 1},
			"local porter  1042  unknown":                       {Actor: local(porter, ""), Station: gate, Lock: 9},
			"local porter  0  unknown":                          {Actor: local(porter, ""), Station: 9, Lock: 1},
			"local token Lobby 7 lock-1 no grant":               {Actor: local("token", "Lobby"), Station: 7, Lock: 1},
			"admin  uid 0 0  unknown":                           {Actor: site.Actor{Origin: site.Admin, Name: "uid 0"}, Lock: 1},
			"integration home Home Assistant 7 lock-2 no grant": {Actor: site.Actor{Origin: site.Integration, Account: "home", Name: "Home Assistant"}, Station: 7, Lock: 2, MayLeave: never},
		} {
			w := newWorld(t)
			if _, err := w.service().Unlock(t.Context(), req); !fault.Is(err, fault.NotFound) || len(w.records) != 1 {
				t.Fatalf("%s: %v, %v", want, err, w.records)
			}
			r := w.records[0]
			got := fmt.Sprintf("%s %s %s %d %s %s", r.Origin, r.Account, r.By, int64(r.Station), r.Lock, r.Detail)
			if got != want || r.Kind != site.KindDenied || r.Session != "" || r.Count != 0 {
				t.Errorf("recorded %+v, want %s", r, want)
			}
		}
	})
}

// There is at most one record a minute for each account and station, with a count.
func TestService_Unlock_deniedOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = s.Run(ctx) })
		for range 100 {
			for _, account := range []site.AccountID{porter, "other"} {
				for _, station := range []site.StationID{7, 99, 100} { // the last two are not there
					req := unlock.Request{Actor: site.Actor{Origin: site.Local, Account: account}, Station: station, Lock: 1}
					if _, err := s.Unlock(ctx, req); !fault.Is(err, fault.NotFound) {
						t.Fatal(err)
					}
				}
			}
		}
		<-time.After(2 * time.Minute)
		cancel()
		running.Wait()
		var got []string
		for _, r := range w.records {
			got = append(got, fmt.Sprint(r.Account, " ", int64(r.Station), " ", r.Count))
		}
		slices.Sort(got)
		want := []string{"other 0 0", "other 0 199", "other 7 0", "other 7 99", "porter 0 0", "porter 0 199", "porter 7 0", "porter 7 99"}
		if !slices.Equal(got, want) {
			t.Errorf("recorded %q", got)
		}
	})
}
