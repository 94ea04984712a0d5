package unlock_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// claim claims an id for a minute.
func claim(w *world, s *unlock.Service, id string) (unlock.Answer, error) {
	return s.Claim(id, w.Now().Add(time.Minute))
}

// An id is carried out once; a copy is told how the first stands.
func TestService_Claim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		if _, err := claim(w, s, "jti-1"); err != nil {
			t.Fatal(err)
		}
		if first, err := claim(w, s, "jti-1"); !fault.Is(err, fault.Conflict) || first.Outcome != site.Requested || !first.Ended.IsZero() {
			t.Errorf("before it has ended: %+v, %v", first, err)
		}
		req := fromCloud(w.Now().Add(time.Minute))
		if _, err := s.Unlock(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if first, err := claim(w, s, "jti-1"); !fault.Is(err, fault.Conflict) || first.Outcome != site.Acknowledged || !first.Ended.Equal(w.Now()) {
			t.Errorf("after it has ended: %+v, %v", first, err)
		}
		for _, id := range []string{"jti-1", "jti-2"} { // carried out; never claimed
			req.JTI = id
			if _, err := s.Unlock(t.Context(), req); !fault.Is(err, fault.Conflict) || w.sent() != 1 {
				t.Errorf("%s: %v, %d sent", id, err, w.sent())
			}
		}
	})
}

func TestService_Claim_atOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		var all sync.WaitGroup
		var claimed atomic.Int64
		for range 100 {
			all.Go(func() {
				if _, err := claim(w, s, "jti-1"); err == nil {
					claimed.Add(1)
				}
			})
		}
		all.Wait()
		if claimed.Load() != 1 {
			t.Errorf("claimed %d times", claimed.Load())
		}
	})
}

// Without a durable record a signed command is not carried out, and may come again; a
// local one is.
func TestService_Unlock_signedNeedsARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		w.full = true
		req := fromCloud(w.Now().Add(time.Minute))
		for range 2 {
			if _, err := claim(w, s, req.JTI); err != nil {
				t.Fatal(err)
			}
			if answer, err := s.Unlock(t.Context(), req); !fault.Is(err, fault.Unavailable) || answer.Outcome != site.Refused || w.sent() != 0 {
				t.Errorf("%+v, %v, %d sent", answer, err, w.sent())
			}
		}
		if answer := mustUnlock(t, s, asPorter("")); answer.Outcome != site.Acknowledged {
			t.Errorf("local: %+v", answer)
		}
		w.full = false
		if answer := mustUnlock(t, s, req); answer.Outcome != site.Acknowledged || w.sent() != 2 {
			t.Errorf("with the disk back: %+v, %d sent", answer, w.sent())
		}
	})
}

// ended is the record of how a command ended.
func ended(r site.Record, outcome site.Outcome) site.Record {
	r.Outcome = outcome
	return r
}

// What the journal holds was carried out, whatever a restart lies between.
func TestNew_remembersSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		done, cut := requested("c-1", "", time.Minute), requested("c-2", "", time.Minute)
		done.JTI, cut.JTI = "jti-1", "jti-2"
		busy, again := requested("c-3", "", time.Minute), requested("c-4", "", time.Minute) // the disk was full, and then not
		busy.JTI, again.JTI = "jti-4", "jti-4"
		w.history = []site.Record{done, cut, ended(done, site.Done), ended(done, site.Late), busy, ended(busy, site.Refused), again, ended(again, site.Done)}
		s := w.service()
		if got := s.Interrupted(); !slices.Equal(got, []string{"jti-2"}) {
			t.Errorf("interrupted: %v", got)
		}
		for id, want := range map[string]site.Outcome{"jti-1": site.Done, "jti-2": site.Unresolved, "jti-4": site.Done} {
			if first, err := claim(w, s, id); !fault.Is(err, fault.Conflict) || first.Outcome != want || first.Ended.IsZero() {
				t.Errorf("%s: %+v, %v", id, first, err)
			}
		}
		if _, err := claim(w, s, "jti-3"); err != nil {
			t.Error(err)
		}
	})
}

// Where the journal misses records nothing signed is carried out for as long as a command
// may hold that it misses.
func TestNew_incompleteJournal(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    site.Kind
		age     time.Duration
		trusted bool
		want    bool // refused
	}{
		{"just restored", site.KindRestored, time.Second, true, true},
		{"restored by a clock that is not trusted", site.KindRestored, time.Hour, false, true},
		{"restored long ago", site.KindRestored, 65 * time.Second, true, false},
		{"records lost", site.KindRecordsLost, time.Minute, true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.history = []site.Record{{Time: site.At(time.Now().Add(-c.age)), ClockTrusted: c.trusted, Kind: c.kind}}
			s := w.service()
			if _, err := claim(w, s, "jti-1"); fault.Is(err, fault.Throttled) != c.want {
				t.Errorf("%s: %v", c.name, err)
			}
			<-time.After(65 * time.Second)
			if _, err := claim(w, s, "jti-2"); err != nil {
				t.Errorf("%s, later: %v", c.name, err)
			}
		})
	}
}

// The memory is bounded, and an id is forgotten only when no clock accepts its command.
func TestService_Claim_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		for n := range 6000 {
			if _, err := claim(w, s, fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
		full := func() bool { _, err := claim(w, s, "one more"); return fault.Is(err, fault.Throttled) }
		if !full() {
			t.Error("more were claimed than are remembered")
		}
		w.ahead = time.Hour // a step forward alone forgets nothing
		if !full() {
			t.Error("forgotten by the clock alone")
		}
		w.ahead = -time.Hour // nor does time, while the clock is behind
		<-time.After(10 * time.Minute)
		if !full() {
			t.Error("forgotten by the monotonic clock alone")
		}
		w.ahead = 0
		if full() {
			t.Error("nothing is forgotten")
		}
	})
}

// Idempotency-Keys on the admin socket, where requests have no account, and the ids of
// signed commands are kept apart: neither uses up the room of the other, and what holds up
// signed commands holds up no administrator.
func TestService_keysWithoutAnAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.history = []site.Record{{Time: site.At(time.Now()), ClockTrusted: true, Kind: site.KindRestored}}
		s := w.service()
		socket := unlock.Request{Actor: site.Actor{Origin: site.Admin, Admin: true, Name: "root"}, Station: gate, Lock: 1, IdempotencyKey: "k"}
		if _, err := s.Unlock(t.Context(), socket); err != nil {
			t.Errorf("after a restore: %v", err)
		}
		<-time.After(10*time.Minute + time.Second)
		if answer, err := s.Unlock(t.Context(), socket); err != nil || answer.Replayed {
			t.Errorf("after ten minutes: %+v, %v", answer, err)
		}
		for n := range 6000 {
			if _, err := claim(w, s, fmt.Sprint("jti-", n)); err != nil {
				t.Fatal(err)
			}
		}
		socket.IdempotencyKey = "other"
		if _, err := s.Unlock(t.Context(), socket); err != nil {
			t.Errorf("beside many signed commands: %v", err)
		}
	})
}

// A refusal in the journal is no command that was carried out: its id is still free.
func TestNew_refusedIsNotCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.history = []site.Record{{
			Time: site.At(time.Now()), ClockTrusted: true, Kind: site.KindUnlock,
			Facts: site.Facts{Origin: site.Cloud, Outcome: site.Refused, JTI: "jti-1", Station: gate, Lock: "lock-1", Detail: "busy"},
		}}
		if _, err := claim(w, w.service(), "jti-1"); err != nil {
			t.Error(err)
		}
	})
}

// updateRecord is a record of an update of the system.
func updateRecord(w *world, id site.CommandID, jti string, outcome site.Outcome) site.Record {
	return site.Record{Time: site.At(w.Now().Add(-time.Minute)), ClockTrusted: true, Kind: site.KindUpdate, Facts: site.Facts{
		Origin: site.Cloud, Command: id, JTI: jti, Outcome: outcome, By: "porter",
	}}
}

// A command that opens no door is carried out once too, by the same memory.
func TestService_Once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		calls := 0
		carry := func(done bool, err error) func() (unlock.Answer, bool, error) {
			return func() (unlock.Answer, bool, error) {
				calls++
				return unlock.Answer{Command: "u-1", Outcome: site.Accepted}, done, err
			}
		}
		if _, err := s.Once("jti-1", carry(true, nil)); !fault.Is(err, fault.Conflict) || calls != 0 {
			t.Errorf("never claimed: %v, %d calls", err, calls)
		}
		if _, err := claim(w, s, "jti-1"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Once("jti-1", carry(false, fault.New(fault.Unavailable, "full"))); !fault.Is(err, fault.Unavailable) || calls != 1 {
			t.Errorf("not done: %v, %d calls", err, calls)
		}
		if _, err := claim(w, s, "jti-1"); err != nil {
			t.Errorf("not done, and its id is not free: %v", err)
		}
		if answer, err := s.Once("jti-1", carry(true, nil)); err != nil || answer.Outcome != site.Accepted || calls != 2 {
			t.Errorf("%+v, %v, %d calls", answer, err, calls)
		}
		if _, err := s.Once("jti-1", carry(true, nil)); !fault.Is(err, fault.Conflict) || calls != 2 {
			t.Errorf("again: %v, %d calls", err, calls)
		}
		if first, err := claim(w, s, "jti-1"); !fault.Is(err, fault.Conflict) || first.Outcome != site.Accepted || first.Ended.IsZero() {
			t.Errorf("a copy: %+v, %v", first, err)
		}
		req := fromCloud(w.Now().Add(time.Minute)) // an unlock with the same id
		if _, err := s.Unlock(t.Context(), req); !fault.Is(err, fault.Conflict) || w.sent() != 0 {
			t.Errorf("an unlock with the id of an update: %v, %d sent", err, w.sent())
		}
	})
}

// What the journal has of updates was carried out, and one of which it does not say what
// became of it is recorded as such, once.
func TestNew_remembersUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.history = []site.Record{
			updateRecord(w, "u-1", "jti-1", site.Requested), updateRecord(w, "u-1", "jti-1", site.Accepted),
			updateRecord(w, "u-2", "jti-2", site.Requested),
			updateRecord(w, "u-3", "", site.Requested), updateRecord(w, "u-3", "", site.Accepted),
			updateRecord(w, "u-4", "jti-4", site.Requested), updateRecord(w, "u-4", "jti-4", site.Failed),
			updateRecord(w, "", "jti-5", site.Refused), // before it was claimed
			updateRecord(w, "", "", site.Committed),
		}
		s := w.service()
		if got := s.Interrupted(); !slices.Equal(got, []string{"jti-2"}) {
			t.Errorf("interrupted: %v", got)
		}
		for id, want := range map[string]site.Outcome{"jti-1": site.Accepted, "jti-2": site.Unresolved, "jti-4": site.Failed} {
			if first, err := claim(w, s, id); !fault.Is(err, fault.Conflict) || first.Outcome != want {
				t.Errorf("%s: %+v, %v", id, first, err)
			}
		}
		if _, err := claim(w, s, "jti-5"); err != nil {
			t.Error(err)
		}
		if len(w.records) != 1 || w.records[0].Kind != site.KindUpdate || w.records[0].Command != "u-2" || w.records[0].Outcome != site.Unresolved {
			t.Errorf("recorded %+v", w.records)
		}
		w.history = append(w.history, w.records...)
		w.records = nil
		if s := w.service(); len(s.Interrupted()) > 0 || len(w.records) > 0 {
			t.Errorf("the next start: interrupted %v, recorded %+v", s.Interrupted(), w.records)
		}
	})
}
