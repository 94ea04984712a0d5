package unlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

const (
	porter = site.AccountID("porter")
	gate   = site.StationID(1042)
)

// world is everything that unlocking needs, with one granted lock.
type world struct {
	t          *testing.T
	mu         sync.Mutex
	events     []string // in order: "intend", "call", "later"
	records    []site.Record
	history    []site.Record
	historyErr error
	outcome    site.Outcome
	commands   []site.Command
	block      chan struct{}
	lost       bool
	lookups    int
	onIntend   func()
	onSent     func(site.Command)
	dead       bool
	withdrawn  bool
	stations   []site.StationID // granted beside gate
	noLocks    bool
	full       bool          // the disk: no record is durable
	ahead      time.Duration // of the gateway's clock
	heard      []string
	begun      time.Time
	slept      time.Duration // by the machine
}

func (w *world) Permits(account site.AccountID, station site.StationID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	return account == porter && (station == gate || slices.Contains(w.stations, station)) && !w.withdrawn
}

func (w *world) Denial(site.AccountID, site.StationID) site.Denial {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	return site.NoGrant
}

func (w *world) Releasing(station site.StationID, lock site.LockID, _ site.CommandID) {
	w.hear(fmt.Sprintf("releasing %s %s", station, lock))
}

func (w *world) Unlocked(station site.StationID, lock site.LockID, _ site.CommandID, outcome site.Outcome) {
	w.hear(fmt.Sprintf("unlocked %s %s %s", station, lock, outcome))
}

func (w *world) hear(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, text)
}

func (w *world) HasLock(station site.StationID, lock site.LockID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups++
	return (station == gate || station == 7) && lock >= 1 && lock <= 2 && !w.noLocks
}

func (w *world) Lives(site.Actor) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.dead
}

func (w *world) Call(cmd site.Command, _ bool, d unlock.Departure) site.Outcome {
	if !d.MayLeave() {
		return site.Refused
	}
	w.mu.Lock()
	w.events = append(w.events, "call")
	w.commands = append(w.commands, cmd)
	block, outcome := w.block, w.outcome
	w.mu.Unlock()
	d.Left()
	if w.onSent != nil {
		w.onSent(cmd)
	}
	if w.lost {
		d.Lost()
	}
	if block != nil {
		<-block
	}
	return outcome
}

func (w *world) Intend(r site.Record) (durable bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, "intend")
	w.records = append(w.records, r)
	if w.onIntend != nil {
		w.onIntend()
	}
	return !w.full
}

func (w *world) AppendLater(r site.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, "later")
	w.records = append(w.records, r)
}

func (w *world) RecentUnlocks(_ context.Context, span time.Duration) ([]site.Record, error) {
	if span != 10*time.Minute { // as long as a key lives
		return nil, fmt.Errorf("asked for the unlocks of %s", span)
	}
	return w.history, w.historyErr
}

func (w *world) Now() time.Time { return time.Now().Add(w.ahead) }
func (w *world) Trusted() bool  { return true }

func (w *world) sent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.commands)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, outcome: site.Acknowledged, begun: time.Now()}
}

func (w *world) service() *unlock.Service {
	w.t.Helper()
	s, err := unlock.New(w.t.Context(), unlock.Config{
		TTL: site.DefaultTTL, Permissions: w, Doors: w, Caller: w, Journal: w, Clock: w, Metrics: metric.New(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	s.SetBoot(func() time.Duration { return time.Since(w.begun) + w.slept }) // real time: outside of a bubble it judges nothing
	return s
}

func asPorter(key string) unlock.Request {
	return unlock.Request{Actor: site.Actor{Origin: site.Local, Account: porter, Session: "s"}, Station: gate, Lock: 1, IdempotencyKey: key}
}

func mustUnlock(t *testing.T, s *unlock.Service, req unlock.Request) unlock.Answer {
	t.Helper()
	if req.JTI != "" {
		if _, err := s.Claim(req.JTI, req.Until); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := s.Unlock(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestService_Unlock_intentBeforeCommandBeforeOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		answer := mustUnlock(t, w.service(), asPorter(""))
		if !slices.Equal(w.events, []string{"intend", "call", "later"}) {
			t.Errorf("order %v", w.events)
		}
		if answer.Outcome != site.Acknowledged || answer.Station != gate || answer.Lock != 1 {
			t.Errorf("answer %+v", answer)
		}
		intent, outcome := w.records[0], w.records[1]
		if intent.Outcome != site.Requested || outcome.Outcome != site.Acknowledged {
			t.Errorf("outcomes %s, %s", intent.Outcome, outcome.Outcome)
		}
		for _, r := range w.records {
			if r.Kind != site.KindUnlock || r.Command != answer.Command || r.Account != porter || r.Origin != site.Local ||
				r.Station != gate || r.Lock != "lock-1" || r.Session != "s" {
				t.Errorf("record %+v", r)
			}
		}
		if w.commands[0].Origin != site.Local {
			t.Errorf("command %+v", w.commands[0])
		}
		if id, err := uuid.Parse(string(answer.Command)); err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 {
			t.Errorf("command id %q: %v", answer.Command, err)
		}
	})
}

func TestService_Unlock_deadlineCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		req := asPorter("")
		req.Accepted = time.Now().Add(-2 * time.Second)
		mustUnlock(t, w.service(), req)
		if want := req.Accepted.Add(site.DefaultTTL); !w.commands[0].Deadline.Equal(want) {
			t.Errorf("deadline %s, want %s", w.commands[0].Deadline, want)
		}
	})
}

// Go's clock stands still while the machine is suspended: a door opened that was asked for
// before.
func TestService_Unlock_suspendedMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for slept, left := range map[time.Duration]time.Duration{2 * time.Second: 3 * time.Second, time.Hour: 0} {
			w := newWorld(t)
			w.onIntend = func() { w.slept = slept }
			answer := mustUnlock(t, w.service(), asPorter(""))
			switch {
			case left == 0 && (answer.Outcome != site.Expired || w.sent() != 0):
				t.Errorf("%s: %s, and %d commands left", slept, answer.Outcome, w.sent())
			case left > 0 && (w.sent() != 1 || time.Until(w.commands[0].Deadline) != left):
				t.Errorf("%s: the commands are %+v, want one with %s left", slept, w.commands, left)
			}
		}
	})
}

// The bug of one unlock kept the next with its Idempotency-Key waiting.
func TestService_Unlock_panicEndsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		w.onSent = func(site.Command) { panic("a bug") }
		func() {
			defer func() { _ = recover() }()
			_, _ = s.Unlock(t.Context(), asPorter("k"))
		}()
		if answer := mustUnlock(t, s, asPorter("k")); answer.Outcome != site.Unresolved || !answer.Replayed || w.sent() != 1 {
			t.Errorf("the next request: %+v after %d commands", answer, w.sent())
		}
	})
}

func TestService_Unlock_refusesAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, req := range map[string]unlock.Request{
			"unknown station": {Actor: site.Actor{Account: porter}, Station: 9, Lock: 1},
			"no station":      {Actor: site.Actor{Account: porter}, Lock: 1},
			"unknown lock":    {Actor: site.Actor{Account: porter}, Station: gate, Lock: 3},
			"no lock":         {Actor: site.Actor{Account: porter}, Station: gate},
			"not granted":     {Actor: site.Actor{Account: porter}, Station: 7, Lock: 1},
			"another account": {Actor: site.Actor{Account: "other"}, Station: gate, Lock: 1},
			"admin, no lock":  {Actor: site.Actor{Origin: site.Admin}, Station: gate, Lock: 3},
			"cloud, no lock":  {Actor: site.Actor{Origin: site.Cloud}, Station: gate, Lock: 3},
			"cloud, no gate":  {Actor: site.Actor{Origin: site.Cloud}, Station: 9, Lock: 1},
			"local, no grant": {Actor: site.Actor{Origin: site.Local}, Station: gate, Lock: 1, MayLeave: func() bool { return true }, JTI: "j"},
		} {
			w := newWorld(t)
			_, err := w.service().Unlock(t.Context(), req)
			if !fault.Is(err, fault.NotFound) || fault.Sentence(err) != "Station not found" {
				t.Errorf("%s: %v", name, err)
			}
			if w.lookups != 5 {
				t.Errorf("%s: %d look-ups, want 5 in every case", name, w.lookups)
			}
			if want := []string{"later"}; req.JTI == "" && !slices.Equal(w.events, want) || req.JTI != "" && w.events != nil {
				t.Errorf("%s: %v happened", name, w.events)
			}
		}
	})
}

// A grant that is taken back, or a session that ends, while the record is being
// written keeps the door shut.
func TestService_Unlock_revokedOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, revoke := range map[string]func(*world){
			"grant":   func(w *world) { w.withdrawn = true },
			"session": func(w *world) { w.dead = true },
		} {
			w := newWorld(t)
			w.onIntend = func() { revoke(w) }
			answer := mustUnlock(t, w.service(), asPorter(""))
			if answer.Outcome != site.Refused || w.sent() != 0 || w.records[1].Outcome != site.Refused {
				t.Errorf("%s: answer %+v, %d sent, records %+v", name, answer, w.sent(), w.records)
			}
		}
	})
}

func TestService_Unlock_administratorNeedsNoGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mustUnlock(t, w.service(), unlock.Request{Actor: site.Actor{Origin: site.Admin, Name: "uid 0"}, Station: 7, Lock: 2})
		if w.records[0].By != "uid 0" || w.records[0].Origin != site.Admin {
			t.Errorf("record %+v", w.records[0])
		}
	})
}

func TestService_Unlock_idempotencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		first := mustUnlock(t, s, asPorter("k"))
		again := mustUnlock(t, s, asPorter("k"))
		if again.Command != first.Command || !again.Replayed || first.Replayed || w.sent() != 1 {
			t.Errorf("first %+v, again %+v, %d sent", first, again, w.sent())
		}
		other := asPorter("k")
		other.Lock = 2
		if mustUnlock(t, s, other).Replayed || mustUnlock(t, s, asPorter("k2")).Replayed || w.sent() != 3 {
			t.Error("another lock or key was answered with the first's answer")
		}
		<-time.After(10 * time.Minute)
		if mustUnlock(t, s, asPorter("k")).Replayed || w.sent() != 4 {
			t.Error("after ten minutes the key still held")
		}
	})
}

func TestService_Unlock_idempotencyKeyWhileUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.block = make(chan struct{})
		s := w.service()
		answers := make(chan unlock.Answer, 3)
		for range 3 {
			go func() { answers <- mustUnlock(t, s, asPorter("k")) }()
		}
		synctest.Wait()
		leaving, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Unlock(leaving, asPorter("k")); !fault.Is(err, fault.Timeout) {
			t.Errorf("the one that left: %v", err)
		}
		close(w.block)
		a, b, c := <-answers, <-answers, <-answers
		if a.Command != b.Command || b.Command != c.Command || w.sent() != 1 {
			t.Errorf("%+v %+v %+v, %d sent", a, b, c, w.sent())
		}
	})
}

// A command's id is a version 7 UUID (RFC 9562, section 5.7).
func TestService_Unlock_commandID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id, err := uuid.Parse(string(mustUnlock(t, w.service(), asPorter("")).Command))
		if err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 {
			t.Fatalf("%s: version %d, variant %d, %v", id, id.Version(), id.Variant(), err)
		}
	})
}

func TestService_Unlock_idempotencyKeyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		if _, err := s.Unlock(t.Context(), asPorter(strings.Repeat("k", unlock.MaxKey+1))); !fault.Is(err, fault.Invalid) {
			t.Errorf("a long key: %v", err)
		}
		mustUnlock(t, s, asPorter(strings.Repeat("k", unlock.MaxKey)))
		for i := range 999 {
			mustUnlock(t, s, asPorter(strconv.Itoa(i)))
		}
		if _, err := s.Unlock(t.Context(), asPorter("one more")); !fault.Is(err, fault.Throttled) || fault.RetryAfter(err) != time.Minute {
			t.Errorf("the 1,001st key: %v, come back after %s", err, fault.RetryAfter(err))
		}
		mustUnlock(t, s, asPorter(""))
		mustUnlock(t, s, asPorter("5"))
	})
}

func requested(id site.CommandID, key string, age time.Duration) site.Record {
	return site.Record{Time: site.At(time.Now().Add(-age)), ClockTrusted: true, Kind: site.KindUnlock, Facts: site.Facts{
		Origin: site.Local, Account: porter, Station: gate, Lock: "lock-1", Command: id, Outcome: site.Requested, IdempotencyKey: key,
	}}
}

// A key is remembered over a restart as long as it lives. Where the clock was not trusted
// and may have stepped since, it is as old as it was when its run ended.
func TestNew_remembersKeysByTheirAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name     string
			age      time.Duration
			trusted  bool
			boot     site.BootID
			after    time.Duration // from it to the last record of the last run
			replayed bool
		}{
			{"young", 9 * time.Minute, true, "last", 0, true},
			{"old", 11 * time.Minute, true, "last", 0, false},
			{"the clock has stepped forward", time.Hour, false, "last", 9 * time.Minute, true},
			{"and it was old before", time.Hour, false, "last", 11 * time.Minute, false},
			{"the clock has gone back", -time.Hour, false, "last", time.Minute, true},
			{"of an earlier run", time.Hour, false, "before", 0, true},
		} {
			before := newWorld(t)
			mustUnlock(t, before.service(), asPorter("k"))
			w := newWorld(t)
			answered := requested("c-1", before.records[0].IdempotencyKey, c.age)
			answered.Outcome, answered.ClockTrusted, answered.Boot = site.Acknowledged, c.trusted, c.boot
			newest := requested("c-2", "another", c.age-c.after)
			newest.Outcome, newest.ClockTrusted, newest.Boot = site.Acknowledged, c.trusted, "last"
			w.history = []site.Record{answered, newest}
			if got := mustUnlock(t, w.service(), asPorter("k")).Replayed; got != c.replayed {
				t.Errorf("%s: replayed %t", c.name, got)
			}
		}
	})
}

// A key that a clock stamped which was not trusted yet lives on over a step of the clock and
// further restarts, until so much time has surely passed.
func TestNew_remembersKeysOverAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type stamp struct {
			age     time.Duration
			trusted bool
			boot    site.BootID
		}
		const longAgo = 50_000 * time.Hour // by a clock that was not set
		for _, c := range []struct {
			name     string
			then     []stamp
			replayed bool
		}{
			{"set and lost in the same run", []stamp{{time.Minute, true, "a"}, {time.Second, false, "a"}}, true},
			{"set before the next run", []stamp{{9 * time.Minute, true, "b"}}, true},
			{"set before the next run, long since", []stamp{{11 * time.Minute, true, "b"}}, false},
			{"never set", []stamp{{longAgo - time.Minute, false, "a"}, {longAgo, false, "b"}, {longAgo - 8*time.Minute, false, "b"}}, true},
			{"never set, long since", []stamp{{longAgo - 3*time.Minute, false, "a"}, {longAgo, false, "b"}, {longAgo - 8*time.Minute, false, "b"}}, false},
		} {
			before := newWorld(t)
			mustUnlock(t, before.service(), asPorter("k"))
			w := newWorld(t)
			for i, s := range append([]stamp{{longAgo, false, "a"}}, c.then...) {
				r := requested(site.CommandID(fmt.Sprint("c-", i)), "another", s.age)
				if i == 0 {
					r.IdempotencyKey = before.records[0].IdempotencyKey
				}
				r.Outcome, r.ClockTrusted, r.Boot = site.Acknowledged, s.trusted, s.boot
				w.history = append(w.history, r)
			}
			if got := mustUnlock(t, w.service(), asPorter("k")).Replayed; got != c.replayed {
				t.Errorf("%s: replayed %t", c.name, got)
			}
		}
	})
}

// However many keys there were before, none of them keeps a new one out.
// As many keys as an account may have are remembered, and no more.
func TestNew_remembersKeys_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 1001 {
			w.history = append(w.history, ended(requested(site.CommandID("c-"+strconv.Itoa(i)), "key-"+strconv.Itoa(i), time.Second), site.Done))
		}
		if n := w.service().Keys(); n != 1000 {
			t.Errorf("%d keys are remembered", n)
		}
	})
}

func TestNew_remembersNoOldKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 1000 {
			r := requested(site.CommandID(fmt.Sprint("c-", i)), fmt.Sprintf("%032d", i), 240*time.Hour-time.Duration(i)*time.Minute)
			r.ClockTrusted = false
			w.history = append(w.history, r)
			r.Outcome = site.Acknowledged
			w.history = append(w.history, r)
		}
		if _, err := w.service().Unlock(t.Context(), asPorter("a new one")); err != nil {
			t.Error(err)
		}
	})
}

// A retry after a restart sends nothing again; a command without an outcome gets
// the outcome "unknown"; what its station says of it still finds it.
func TestNew_remembersOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := newWorld(t)
		mustUnlock(t, before.service(), asPorter("k"))
		digest := before.records[0].IdempotencyKey
		if digest == "" || digest == "k" {
			t.Fatalf("the record names the key %q, want a digest", digest)
		}
		w := newWorld(t)
		ended := requested("c-1", digest, time.Minute)
		acknowledged := ended
		acknowledged.Outcome = site.Acknowledged
		late := ended // says more of it, but was not the client's answer
		late.Outcome = site.Late
		unknown := requested("c-3", "digest-3", -time.Hour) // from a clock that was wrong
		w.history = []site.Record{ended, acknowledged, late, requested("c-2", "", time.Hour), unknown}
		s := w.service()
		if answer := mustUnlock(t, s, asPorter("k")); answer.Command != "c-1" || !answer.Replayed || answer.Outcome != site.Acknowledged || w.sent() != 0 {
			t.Errorf("answer %+v, %d sent", answer, w.sent())
		}
		if len(w.records) != 2 || w.records[0].Command != "c-2" || w.records[0].Outcome != site.Unresolved || w.records[1].Command != "c-3" {
			t.Fatalf("records %+v, want two with outcome unknown", w.records)
		}
		if !s.Followed("c-2", gate, 1, site.Done) || w.records[2].Outcome != site.Late || w.records[2].Answer != "done" {
			t.Errorf("records %+v, want a late answer", w.records)
		}
	})
}

func TestNew_journalFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.historyErr = errors.New("disk")
		if _, err := unlock.New(t.Context(), unlock.Config{Permissions: w, Doors: w, Caller: w, Journal: w, Clock: w, Metrics: metric.New()}); err == nil {
			t.Error("started without its memory")
		}
	})
}

func TestService_Followed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		answer := mustUnlock(t, s, asPorter(""))
		if s.Followed(answer.Command, 7, 1, site.Done) || s.Followed("c-unknown", gate, 1, site.Done) || s.Followed(answer.Command, gate, 2, site.Done) {
			t.Error("another station's or lock's word, or an unknown command, was recorded")
		}
		if !s.Followed(answer.Command, gate, 0, site.Done) {
			t.Fatal("the result after the acknowledgement was not recorded")
		}
		if r := w.records[2]; r.Outcome != site.Done || r.Answer != "" || r.Command != answer.Command || r.Session != "s" || r.Lock != "lock-1" {
			t.Errorf("record %+v", r)
		}
		<-time.After(site.DefaultTTL + 1)
		if !s.Followed(answer.Command, gate, 0, site.Failed) {
			t.Fatal("the late result was not recorded")
		}
		if r := w.records[3]; r.Outcome != site.Late || r.Answer != "failed" {
			t.Errorf("record %+v", r)
		}
		if s.Followed(answer.Command, gate, 0, site.Failed) {
			t.Error("the same word was recorded twice")
		}
		if !s.Followed(answer.Command, gate, 0, site.Done) {
			t.Error("the third word was not recorded")
		}
		if s.Followed(answer.Command, gate, 0, site.Refused) {
			t.Error("one command was given records without bound")
		}
	})
}

// With a key the outcome is as durable as the intent, before the client is answered.
func TestService_Unlock_keyedOutcomeIsIntended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mustUnlock(t, w.service(), asPorter("k"))
		if !slices.Equal(w.events, []string{"intend", "call", "intend"}) {
			t.Errorf("order %v", w.events)
		}
	})
}

// A query of a command in flight waits for its end.
// The outcome of a keyed unlock is durable before its answer. Where that takes until after
// the deadline, the answer is no success, to a retry neither, nor after a restart.
func TestService_Unlock_noSuccessAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.onIntend = func() {
			if len(w.events) > 1 { // the outcome's
				time.Sleep(site.DefaultTTL)
			}
		}
		s := w.service()
		first := mustUnlock(t, s, asPorter("key"))
		if first.Outcome != site.Expired {
			t.Errorf("after the deadline the answer is %q", first.Outcome)
		}
		var outcomes []site.Outcome
		for _, r := range w.records {
			outcomes = append(outcomes, r.Outcome)
		}
		if want := []site.Outcome{site.Requested, site.Acknowledged, site.Late}; !slices.Equal(outcomes, want) {
			t.Errorf("recorded %q, want %q", outcomes, want)
		}
		for i := range w.records {
			w.records[i].ClockTrusted, w.records[i].Time = true, site.At(time.Now())
		}
		w.history = w.records
		for name, s := range map[string]*unlock.Service{"the same run": s, "the next run": w.service()} {
			if again := mustUnlock(t, s, asPorter("key")); again.Outcome != site.Expired || again.Command != first.Command {
				t.Errorf("%s answers a retry %+v", name, again)
			}
		}
	})
}

func TestService_Command_underWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.block = make(chan struct{})
		s := w.service()
		go func() {
			if _, err := s.Unlock(t.Context(), asPorter("")); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		id := w.commands[0].ID
		leaving, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Command(leaving, site.Actor{Account: porter}, id); !fault.Is(err, fault.Timeout) {
			t.Errorf("the one that left: %v", err)
		}
		answers := make(chan unlock.Answer, 1)
		go func() {
			answer, err := s.Command(t.Context(), site.Actor{Account: porter}, id)
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		}()
		synctest.Wait()
		close(w.block)
		if got := <-answers; got.Outcome != site.Acknowledged {
			t.Errorf("answer %+v", got)
		}
		<-time.After(site.DefaultTTL + 1)
		s.Followed(id, gate, 0, site.Failed)
		if got, err := s.Command(t.Context(), site.Actor{Account: porter}, id); err != nil || got.Outcome != site.Acknowledged {
			t.Errorf("after a late word: %+v, %v", got, err)
		}
	})
}

// A command that is forgotten while it is under way ends the wait for its end.
func TestService_Command_forgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		block, first := make(chan struct{}), make(chan struct{})
		w.block = block
		go func() {
			defer close(first)
			mustUnlock(t, s, asPorter(""))
		}()
		synctest.Wait()
		w.block = nil
		id := w.commands[0].ID
		end := make(chan error, 1)
		go func() {
			_, err := s.Command(t.Context(), site.Actor{Account: porter}, id)
			end <- err
		}()
		synctest.Wait()
		for range 4096 {
			mustUnlock(t, s, asPorter(""))
		}
		if err := <-end; !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
		close(block)
		<-first
	})
}

func TestService_Command(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := requested("c-old", "", time.Hour)
		done := old
		done.Outcome = site.Done
		unanswered := requested("c-unanswered", "", time.Hour)
		late := done
		late.Outcome = site.Late
		w.history = []site.Record{old, done, late, unanswered}
		s := w.service()
		answer := mustUnlock(t, s, asPorter(""))
		actor := site.Actor{Account: porter}
		if got, err := s.Command(t.Context(), actor, answer.Command); err != nil || got.Outcome != site.Acknowledged {
			t.Errorf("%+v, %v", got, err)
		}
		s.Followed(answer.Command, gate, 0, site.Done)
		if got, err := s.Command(t.Context(), actor, answer.Command); err != nil || got.Outcome != site.Done {
			t.Errorf("after the result: %+v, %v", got, err)
		}
		for id, want := range map[site.CommandID]site.Outcome{"c-old": site.Done, "c-unanswered": site.Expired} {
			if got, err := s.Command(t.Context(), actor, id); err != nil || got.Outcome != want || got.Lock != 1 {
				t.Errorf("%s: %+v, %v", id, got, err)
			}
		}
		for _, c := range []struct {
			actor site.Actor
			id    site.CommandID
		}{{site.Actor{Account: "other"}, answer.Command}, {site.Actor{}, answer.Command}, {actor, "c-none"}, {site.Actor{Account: "other"}, "c-old"}} {
			if _, err := s.Command(t.Context(), c.actor, c.id); !fault.Is(err, fault.NotFound) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}

// Doors hear of commands that are sent, before they are, and of no other.
func TestService_Unlock_doorsHear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		mustUnlock(t, s, asPorter(""))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = s.Unlock(gone, asPorter(""))
		want := []string{"releasing " + gate.String() + " lock-1", "unlocked " + gate.String() + " lock-1 acknowledged"}
		if !slices.Equal(w.heard, want) {
			t.Errorf("heard %q, want %q", w.heard, want)
		}
	})
}
