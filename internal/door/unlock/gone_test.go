package unlock_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/site"
)

// A client that has gone before the command leaves, when it asked or while the record was
// being written, opens nothing; the record says why. The cloud's commands bring their own
// end, and nobody waits for them.
func TestService_Unlock_clientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			origin  site.Origin
			arrives bool // at least the request does
			opens   bool
		}{
			"gone on arrival":           {site.Local, false, false},
			"gone on the way":           {site.Local, true, false},
			"administrator on arrival":  {site.Admin, false, false},
			"administrator on the way":  {site.Admin, true, false},
			"the cloud's link is ended": {site.Cloud, true, true},
		} {
			for _, key := range []string{"", "k"} {
				w := newWorld(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if !c.arrives {
					cancel()
				}
				w.onIntend = cancel
				req := asPorter(key)
				req.Actor.Origin = c.origin
				answer, err := w.service().Unlock(ctx, req)
				if err != nil || answer.Outcome.Opened() != c.opens || (w.sent() == 1) != c.opens {
					t.Errorf("%s: %+v, %v, %d sent", name, answer, err, w.sent())
				}
				if got := w.records[1]; (got.Detail == "the client had gone before the command left") == c.opens || got.Outcome != answer.Outcome {
					t.Errorf("%s: record %+v", name, got)
				}
			}
		}
	})
}

// A command that was sent is seen through, even if its client disconnects then.
func TestService_Unlock_clientGoesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.onSent = func(site.Command) { cancel() }
		answer, err := w.service().Unlock(ctx, asPorter(""))
		if err != nil || answer.Outcome != site.Acknowledged || w.records[1].Detail != "" {
			t.Errorf("%+v, %v, records %+v", answer, err, w.records)
		}
	})
}

// A request whose client had gone sent nothing and was answered to nobody: it does not use
// up its key, also for the retry that waits for it meanwhile, and over a restart.
func TestService_Unlock_clientGone_keepsTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		ctx, cancel := context.WithCancel(t.Context())
		w.onIntend = func() {
			w.onIntend = nil
			w.mu.Unlock()
			defer w.mu.Lock()
			go func() { // the retry
				if again := mustUnlock(t, s, asPorter("k")); again.Outcome != site.Acknowledged || again.Replayed {
					t.Errorf("the retry: %+v", again)
				}
			}()
			synctest.Wait()
			cancel()
		}
		if answer, err := s.Unlock(ctx, asPorter("k")); err != nil || answer.Outcome != site.Refused {
			t.Errorf("%+v, %v", answer, err)
		}
		synctest.Wait()
		if again := mustUnlock(t, s, asPorter("k")); !again.Replayed || again.Outcome != site.Acknowledged || w.sent() != 1 {
			t.Errorf("later: %+v, %d sent", again, w.sent())
		}
		w.history = slices.Clone(w.records[:2]) // the first alone
		for i := range w.history {
			w.history[i].Time = site.At(time.Now())
		}
		if again := mustUnlock(t, w.service(), asPorter("k")); again.Replayed {
			t.Errorf("after a restart: %+v", again)
		}
	})
}

// What a station says while its command is under way is recorded behind the outcome; after
// an expired one it is late, and changes nothing.
func TestService_Followed_underWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			call, said, record site.Outcome
			answer             string
			end                site.Outcome
		}{
			"over another connection": {site.Failed, site.Done, site.Done, "", site.Done},
			"late":                    {site.Expired, site.Acknowledged, site.Late, "acknowledged", site.Expired},
		} {
			w := newWorld(t)
			s := w.service()
			w.outcome = c.call
			w.onSent = func(cmd site.Command) {
				if !s.Followed(cmd.ID, gate, 1, c.said) {
					t.Errorf("%s: not known", name)
				}
				if s.Followed(cmd.ID, gate, 1, c.said) {
					t.Errorf("%s: the same again is known", name)
				}
			}
			answer := mustUnlock(t, s, asPorter(""))
			if len(w.records) != 3 || w.records[1].Outcome != c.call || w.records[2].Outcome != c.record || w.records[2].Answer != c.answer {
				t.Errorf("%s: records %+v", name, w.records)
			}
			if end, err := s.Command(t.Context(), asPorter("").Actor, answer.Command); err != nil || end.Outcome != c.end {
				t.Errorf("%s: %+v, %v", name, end, err)
			}
		}
	})
}

// Expired keys are forgotten though nobody uses any, and a flood's room goes with them.
func TestService_Run_forgetsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		key := func(n int) string { return time.Duration(n).String() }
		for n := range 999 {
			mustUnlock(t, s, asPorter(key(n)))
		}
		<-time.After(9 * time.Minute)
		synctest.Wait()
		mustUnlock(t, s, asPorter("young"))
		if n := s.Keys(); n != 1000 {
			t.Errorf("%d keys are remembered within ten minutes", n)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if n := s.Keys(); n != 1 {
			t.Errorf("%d keys are remembered, want the young one", n)
		}
		if again := mustUnlock(t, s, asPorter("young")); !again.Replayed {
			t.Error("the young one is forgotten")
		}
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if n := s.Keys(); n != 0 {
			t.Errorf("%d keys are remembered", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
