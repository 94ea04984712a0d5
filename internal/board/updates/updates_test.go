package updates_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/board/updates"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// world is everything around a Service.
type world struct {
	t *testing.T

	mu      sync.Mutex
	status  site.UpdateStatus
	unread  error // of ReadStatus
	reads   int
	asked   []slot.Request
	mute    error // of Ask
	busy    bool  // a request waits
	records []site.Record
	full    bool  // the disk takes nothing
	broken  error // of the store
	end     string
	log     strings.Builder
}

func newWorld(t *testing.T) *world {
	return &world{t: t, status: site.UpdateStatus{
		Image: true, Running: site.SlotStatus{Slot: "a", Version: "1.2.3"}, Default: "a", Other: site.SlotStatus{Slot: "b"}, Phase: site.UpdateIdle,
	}}
}

func (w *world) service() *updates.Service {
	return updates.New(updates.Config{
		Exchange: w, Journal: w, Store: w, Clock: w, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		Zone: func() *time.Location { return time.UTC },
	})
}

func (w *world) Now() time.Time { return time.Now() }
func (w *world) Trusted() bool  { return true }

func (w *world) Ask(r slot.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.records); n == 0 || w.records[n-1].Outcome != site.Requested || w.records[n-1].Command != site.CommandID(r.ID) {
		w.t.Error("root is asked without a record before")
	}
	if w.mute == nil {
		w.asked = append(w.asked, r)
	}
	return w.mute
}

func (w *world) Asked() bool { return w.busy }

func (w *world) ReadStatus() (site.UpdateStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	return w.status, w.unread
}

func (w *world) Intend(r site.Record) bool {
	w.AppendLater(r)
	return !w.full
}

func (w *world) AppendLater(r site.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records = append(w.records, r)
}

func (w *world) UpdateEnd(context.Context) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.end, w.broken
}

func (w *world) RecordUpdate(_ context.Context, end string, r site.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.end, w.records = end, append(w.records, r)
	}
	return w.broken
}

// set changes the world.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// ends has root state an outcome.
func (w *world) ends(version string, outcome site.UpdateOutcome, reason string) {
	w.set(func() {
		w.status.Last = &site.LastUpdate{Version: version, Outcome: outcome, Time: site.At(time.Now()), Reason: reason}
	})
}

// wants requires these records, as "OUTCOME VERSION DETAIL", and forgets them.
func (w *world) wants(want ...string) {
	w.t.Helper()
	var got []string
	w.set(func() {
		for _, r := range w.records {
			if r.Kind != site.KindUpdate {
				w.t.Errorf("a record of kind %s", r.Kind)
			}
			got = append(got, strings.TrimSpace(fmt.Sprint(r.Outcome, " ", r.Version, " ", r.Detail)))
		}
		w.records = nil
	})
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		w.t.Errorf("the records are\n%q, want\n%q", got, want)
	}
}

const (
	where = "https://updates.example.test/gatehouse_1.3.0_arm64.update"
	sum   = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
)

func chief() site.Actor { return site.Actor{Origin: site.Admin, Name: "uid 0 (root)"} }

// Of requests that come together one is left, whole, and the others are refused: none is lost.
func TestService_Request_together(t *testing.T) {
	w := newWorld(t)
	root := slot.Exchange{Root: t.TempDir()}
	if err := errors.Join(os.MkdirAll(filepath.Join(root.Root, "run", "gatehouse"), 0o700), root.WriteStatus(w.status)); err != nil {
		t.Fatal(err)
	}
	s := updates.New(updates.Config{Exchange: root, Journal: w, Store: w, Clock: w, Logger: slog.New(slog.DiscardHandler)})
	var all sync.WaitGroup
	var left atomic.Int64
	for range 8 {
		all.Go(func() {
			for range 10 {
				switch _, err := s.Request(chief(), updates.Order{URL: where}); {
				case err == nil:
					left.Add(1)
				case !fault.Is(err, fault.Conflict):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := left.Load(); n != 1 {
		t.Errorf("%d were left", n)
	}
	if r, found, err := root.TakeRequest(); !found || r.URL != where {
		t.Errorf("root finds %+v, %t, %v", r, found, err)
	}
}

func TestService_Request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := time.Now().Add(time.Hour)
		id, err := w.service().Request(chief(), updates.Order{URL: where + "?token=secret#part", SHA256: sum, At: at})
		if err != nil || len(w.asked) != 1 {
			t.Fatalf("%v, asked %d times", err, len(w.asked))
		}
		want := slot.Request{ID: string(id), Action: slot.Update, URL: where + "?token=secret#part", SHA256: sum, At: site.At(at)}
		if w.asked[0] != want {
			t.Errorf("asked %+v, want %+v", w.asked[0], want)
		}
		for _, r := range w.records {
			if r.By != "uid 0 (root)" || r.Origin != site.Admin || r.Command != id {
				t.Errorf("the record is %+v", r)
			}
		}
		w.wants("requested  "+where+", SHA-256 "+sum+", restart at "+site.At(at).String(), "accepted")
		if strings.Contains(w.log.String(), "secret") {
			t.Errorf("logged %s", &w.log)
		}
		if _, err := w.service().Request(chief(), updates.Order{File: true}); err != nil || !w.asked[1].File {
			t.Errorf("%v, %+v", err, w.asked)
		}
		w.wants("requested  an uploaded file", "accepted")
	})
}

// What cannot be right asks for nothing, gets no record, and no sentence has the URL.
func TestService_Request_invalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, o := range map[string]updates.Order{
			"nothing":        {},
			"both":           {URL: where, File: true},
			"plain":          {URL: "http://updates.example.test/secret"},
			"another scheme": {URL: "file:///secret"},
			"no host":        {URL: "https:///secret"},
			"only a port":    {URL: "https://:443/secret"},
			"opaque":         {URL: "https:secret"},
			"user":           {URL: "https://porter:secret@updates.example.test/x"},
			"user alone":     {URL: "https://secret@updates.example.test/x"},
			"unreadable":     {URL: "https://porter:secret@updates.example.test:x/x"},
			"control":        {URL: "https://updates.example.test/secret\n"},
			"endless":        {URL: "https://updates.example.test/secret" + strings.Repeat("x", updates.MaxURL)},
			"short sum":      {URL: where, SHA256: sum[1:]},
			"capital sum":    {URL: where, SHA256: strings.ToUpper(sum)},
			"two lines":      {URL: where, SHA256: sum + "\n"},
			"past":           {URL: where, At: time.Now().Add(-2 * time.Minute)},
			"far":            {URL: where, At: time.Now().Add(updates.MaxAhead + 61*time.Second)},
		} {
			w := newWorld(t)
			_, err := w.service().Request(chief(), o)
			if !fault.Is(err, fault.Invalid) || len(w.asked) > 0 || len(w.records) > 0 || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v, asked %v, records %v", name, err, w.asked, w.records)
			}
		}
	})
}

func TestService_Request_conflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.unread = fault.New(fault.NotFound, "none")
		if _, err := w.service().Request(chief(), updates.Order{File: true}); !fault.Is(err, fault.Conflict) || fault.Sentence(err)+"." != strings.TrimSuffix(updates.Advice(), ".")+"." {
			t.Errorf("on a system that is no image: %v", err)
		}
		w.unread, w.status.Default, w.status.Trouble = nil, "", "restore that line"
		if _, err := w.service().Request(chief(), updates.Order{File: true}); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "restore that line") || len(w.records) > 0 {
			t.Errorf("without a default: %v", err)
		}
		w.status.Default, w.status.Trouble, w.busy = "a", "", true
		if id, err := w.service().Request(chief(), updates.Order{File: true}); !fault.Is(err, fault.Conflict) || id != "" || len(w.records) > 0 || len(w.asked) > 0 {
			t.Errorf("while another request waits: %v", err)
		}
		w.busy = false
		for phase, free := range map[site.UpdatePhase]bool{
			"": true, site.UpdateIdle: true, site.UpdateWaiting: true,
			site.UpdateFetching: false, site.UpdateChecking: false, site.UpdateWriting: false, site.UpdateVerifying: false, site.UpdateRestarting: false, site.UpdateTrial: false,
		} {
			w.status.Phase, w.asked = phase, nil
			_, err := w.service().Request(chief(), updates.Order{File: true})
			if free != (err == nil) || err != nil && (!fault.Is(err, fault.Conflict) || len(w.asked) > 0) {
				t.Errorf("in phase %q: %v", phase, err)
			}
		}
	})
}

// A signed command needs a durable record, an administrator does not; what fails or is
// withdrawn on the way is recorded.
func TestService_Request_fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.full = true
		if id, err := w.service().Request(chief(), updates.Order{File: true, JTI: "jti-1"}); !fault.Is(err, fault.Unavailable) || id != "" || len(w.asked) > 0 {
			t.Errorf("%v, asked %v", err, w.asked)
		}
		w.wants("requested  an uploaded file", "refused  the storage takes no writes")
		if _, err := w.service().Request(chief(), updates.Order{File: true}); err != nil || len(w.asked) != 1 {
			t.Errorf("%v, asked %v", err, w.asked)
		}
		w.wants("requested  an uploaded file", "accepted")
		w.full = false
		withdrawn := func() bool { return false }
		if _, err := w.service().Request(chief(), updates.Order{File: true, JTI: "jti-1", Permitted: withdrawn}); !fault.Is(err, fault.Forbidden) || len(w.asked) != 1 {
			t.Errorf("%v, asked %v", err, w.asked)
		}
		w.wants("requested  an uploaded file", "refused  The update is no longer permitted")
		w.mute = errors.New("no space")
		if _, err := w.service().Request(chief(), updates.Order{File: true}); !fault.Is(err, fault.Unavailable) {
			t.Error(err)
		}
		w.wants("requested  an uploaded file", "failed  the request could not be left for root")
	})
}

// The status is read once a second at most.
func TestService_Status(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.service()
		for range 100 {
			if got := s.Status(); got.Running.Version != "1.2.3" {
				t.Fatalf("%+v", got)
			}
		}
		w.ends("1.3.0", site.UpdateFellBack, "it did not start")
		w.set(func() { w.status.Before = &site.LastUpdate{Version: "1.2.9"} })
		<-time.After(time.Second)
		s.Status().Last.Version, s.Status().Before.Version = "changed", "changed" // of the caller's copy
		if now := s.Status(); now.Last == nil || now.Last.Version != "1.3.0" || now.Before.Version != "1.2.9" || w.reads != 2 {
			t.Errorf("%+v, %+v after %d reads", now.Last, now.Before, w.reads)
		}
		w.unread = errors.New("garbage")
		for range 3 {
			<-time.After(time.Second)
			if got := s.Status(); got != (site.UpdateStatus{Advice: updates.Advice()}) {
				t.Errorf("unreadable: %+v", got)
			}
		}
		if n := strings.Count(w.log.String(), "cannot be read"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// run runs a service until the returned function is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.service().Run(ctx) }()
	return func() {
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
}

// Each outcome gets one record, whatever restarts lie between.
func TestService_Run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.run()
		<-time.After(time.Minute)
		w.wants()
		w.ends("1.3.0", site.UpdateFellBack, "it did not start")
		<-time.After(time.Minute)
		stop()
		w.run()()
		w.wants("fell-back 1.3.0 it did not start")
		w.ends("1.3.0", site.UpdateCommitted, "") // while no gateway runs
		w.run()()
		w.wants("committed 1.3.0")
		stop = w.run()
		<-time.After(time.Second)
		w.ends("", site.UpdateRefused, "no key signed it")
		<-time.After(2 * time.Second)
		w.ends("", site.UpdateRefused, "no key signed it") // the same again, later
		<-time.After(2 * time.Second)
		stop()
		w.wants("refused  no key signed it", "refused  no key signed it")
	})
}

// An outcome that one refused has followed, while no gateway ran, has its record too, once.
func TestService_Run_before(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, version := range []string{"1.3.0", "1.4.0"} {
			w.ends(version, site.UpdateFailed, "no room")
			w.set(func() { // by a clock that is set back afterwards
				w.status.Before, w.status.Last.Time = nil, site.At(time.Now().Add(24*time.Hour))
			})
			w.set(func() { w.status.Before = w.status.Last })
			w.ends("", site.UpdateRefused, "no key signed it")
			w.run()()
			w.wants("failed "+version+" no room", "refused  no key signed it")
			<-time.After(time.Minute)
			w.ends("", site.UpdateRefused, "for another board")
			w.run()()
			w.wants("refused  for another board")
			<-time.After(time.Minute)
		}
	})
}

// While the disk takes nothing, outcomes wait, and no more than a few.
func TestService_Run_disk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.ends("1", site.UpdateFailed, "") // and its record is there
		w.run()()
		w.wants("failed 1")
		w.set(func() { w.broken = fault.New(fault.Unavailable, "full") })
		stop := w.run() // it cannot know which has its record
		<-time.After(10 * time.Second)
		w.set(func() { w.broken = nil })
		<-time.After(10 * time.Second)
		w.wants()
		w.set(func() { w.broken = fault.New(fault.Unavailable, "full") })
		var want []string
		for i := range 20 {
			w.ends(fmt.Sprint("2.", i), site.UpdateFailed, "")
			<-time.After(2 * time.Second)
			if i >= 4 {
				want = append(want, fmt.Sprint("failed 2.", i))
			}
		}
		w.set(func() { w.broken = nil })
		<-time.After(2 * time.Second)
		stop()
		w.wants(want...)
	})
}
