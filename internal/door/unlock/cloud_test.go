package unlock_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/site"
)

// fromCloud is a command of a signer, who has no account and no grant here.
func fromCloud(until time.Time) unlock.Request {
	return unlock.Request{
		Actor: site.Actor{Origin: site.Cloud, Name: "porter@example.test"}, Station: 7, Lock: 2, WaitResult: true,
		Until: until, JTI: "jti-1",
	}
}

func TestService_Unlock_cloudNeedsNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		answer := mustUnlock(t, s, fromCloud(time.Now().Add(time.Minute)))
		if answer.Outcome != site.Acknowledged || w.sent() != 1 {
			t.Errorf("answer %+v, %d sent", answer, w.sent())
		}
		s.Followed(answer.Command, 7, 2, site.Done)
		<-time.After(site.DefaultTTL + 1)
		s.Followed(answer.Command, 7, 2, site.Failed)
		var outcomes []site.Outcome
		for _, r := range w.records {
			outcomes = append(outcomes, r.Outcome)
			if r.JTI != "jti-1" || r.Origin != site.Cloud || r.By != "porter@example.test" || r.Account != "" {
				t.Errorf("record %+v", r)
			}
		}
		if want := []site.Outcome{site.Requested, site.Acknowledged, site.Done, site.Late}; !slices.Equal(outcomes, want) {
			t.Errorf("outcomes %v, want %v", outcomes, want)
		}
	})
}

// What was under way when the gateway ended keeps the cloud's id.
func TestNew_remembersTheJTI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := requested("c-1", "", time.Second)
		r.Origin, r.Account, r.JTI = site.Cloud, "", "jti-1"
		w.history = []site.Record{r}
		w.service()
		if len(w.records) != 1 || w.records[0].JTI != "jti-1" || w.records[0].Outcome != site.Unresolved {
			t.Errorf("records %+v", w.records)
		}
	})
}

func TestService_Unlock_untilIsADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct{ until, want time.Duration }{
			"earlier": {2 * time.Second, 2 * time.Second},
			"later":   {time.Minute, site.DefaultTTL},
		} {
			w := newWorld(t)
			w.ahead = time.Hour // of the system's clock
			began := time.Now()
			mustUnlock(t, w.service(), fromCloud(w.Now().Add(c.until).Round(0)))
			if got := w.commands[0].Deadline.Sub(began); got != c.want {
				t.Errorf("%s: the deadline is %s ahead, want %s", name, got, c.want)
			}
		}
	})
}

// The deadline is fixed when the command is accepted: a step of the clock while its
// record is written neither prolongs nor shortens it.
func TestService_Unlock_untilIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := time.Now()
		w.onIntend = func() { w.ahead = time.Hour }
		answer := mustUnlock(t, w.service(), fromCloud(time.Now().Add(4*time.Second)))
		if answer.Outcome != site.Acknowledged || w.commands[0].Deadline.Sub(began) != 4*time.Second {
			t.Errorf("%+v, deadline %s", answer, w.commands[0].Deadline)
		}
	})
}

// A command whose time is over never leaves, and is in the journal.
func TestService_Unlock_untilIsPast(t *testing.T) {
	for name, c := range map[string]struct{ until, slow time.Duration }{
		"on arrival":                   {-time.Millisecond, 0},
		"at this moment":               {0, 0},
		"while its record was written": {time.Second, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.onIntend = func() { <-time.After(c.slow) }
			answer := mustUnlock(t, w.service(), fromCloud(time.Now().Add(c.until)))
			if answer.Outcome != site.Expired || w.sent() != 0 || answer.Command == "" {
				t.Errorf("%s: %+v, %d sent", name, answer, w.sent())
			}
			if len(w.records) != 2 || w.records[1].Outcome != site.Expired || w.records[1].JTI != "jti-1" {
				t.Errorf("%s: records %+v", name, w.records)
			}
		})
	}
}

// What must still hold when the command leaves is asked after its record is written.
func TestService_Unlock_mayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		trusted := true
		w.onIntend = func() { trusted = false }
		req := fromCloud(time.Now().Add(time.Minute))
		req.MayLeave = func() bool { return trusted }
		answer := mustUnlock(t, w.service(), req)
		if answer.Outcome != site.Refused || w.sent() != 0 || w.records[1].Outcome != site.Refused {
			t.Errorf("%+v, %d sent, records %+v", answer, w.sent(), w.records)
		}
		w.onIntend, trusted, req.JTI = nil, true, "jti-2"
		if answer := mustUnlock(t, w.service(), req); answer.Outcome != site.Acknowledged || w.sent() != 1 {
			t.Errorf("%+v, %d sent", answer, w.sent())
		}
		gone := req
		gone.JTI = "jti-3"
		gone.MayLeave = func() bool { return true }
		w.onIntend = func() { w.noLocks = true }
		if answer := mustUnlock(t, w.service(), gone); answer.Outcome != site.Refused || w.sent() != 1 {
			t.Errorf("the station was removed: %+v, %d sent", answer, w.sent())
		}
	})
}
