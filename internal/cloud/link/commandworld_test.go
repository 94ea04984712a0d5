package link_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/fault"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// world is everything that commands need: stations with two locks each, from
// number 1042 on, and a signer.
type world struct {
	t       testing.TB
	key     api.PrivateKey
	metrics *metric.Registry
	log     *bytes.Buffer

	mu          sync.Mutex // mu guards what follows
	events      []string   // in order: "claim c-1", "unlock c-1"
	claimed     map[string]unlock.Answer
	interrupted []string
	full        bool // nothing more can be claimed
	ahead       time.Duration
	opened      []unlock.Request
	outcome     site.Outcome
	unlocker    error
	onUnlock    func(unlock.Request)
	onOnce      func()
	unsure      bool // the clock
	results     []api.Result
	records     []site.Record
	update      updateWorld
}

func newWorld(t testing.TB) *world {
	t.Helper()
	key, err := api.Generate("front-desk")
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, key: key, claimed: make(map[string]unlock.Answer), outcome: site.Done, metrics: metric.New(), log: &bytes.Buffer{}}
}

func keyring(t testing.TB, keys ...api.Key) api.Keyring {
	t.Helper()
	var lines []string
	for _, key := range keys {
		lines = append(lines, key.String())
	}
	ring, err := api.NewKeyring(lines)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// commands returns commands that trust the signer; called again they are those of the
// next run of the process.
func (w *world) commands() link.Commands {
	w.t.Helper()
	c := link.NewCommands(w.config(), w.answer)
	c.Trust(keyring(w.t, w.key.Public()))
	return c
}

func (w *world) config() link.Config {
	return link.Config{
		Gateway: gatewayID, Unlocker: w, Updates: &w.update, Stations: stations{w: w}, Journal: appending{w: w},
		Clock: w, Logger: slog.New(slog.NewTextHandler(w.log, nil)), Metrics: w.metrics,
	}
}

// allStations is link.Stations, whose methods commands do not use, under a name that none of
// them has.
type allStations = link.Stations

// stations and appending are what commands need of the stations and of the journal.
type (
	stations struct {
		allStations
		w *world
	}
	appending struct {
		link.Journal
		w *world
	}
)

func (s stations) State(id site.StationID) (site.StationState, bool) { return s.w.state(id) }
func (a appending) AppendLater(r site.Record)                        { a.w.record(r) }

func (w *world) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

func (w *world) Trusted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.unsure
}

func (w *world) state(id site.StationID) (site.StationState, bool) {
	return site.StationState{ID: id, Locks: []site.Lock{{ID: 1}, {ID: 2}}}, id >= 1042
}

func (w *world) record(r site.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records = append(w.records, r)
}

// recorded returns the records so far.
func (w *world) recorded() []site.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records)
}

func (w *world) answer(r api.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.results = append(w.results, r)
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) Unlock(ctx context.Context, req unlock.Request) (unlock.Answer, error) {
	w.mu.Lock()
	w.events = append(w.events, "unlock "+req.JTI)
	w.opened = append(w.opened, req)
	outcome, err, on := w.outcome, w.unlocker, w.onUnlock
	w.mu.Unlock()
	if err != nil {
		return unlock.Answer{}, err
	}
	if on != nil {
		on(req)
	}
	if ctx.Err() != nil {
		w.t.Error("the end of the process ends an unlock that has begun")
	}
	if !req.MayLeave() {
		outcome = site.Refused
	}
	w.set(func() {
		w.claimed[req.JTI] = unlock.Answer{Outcome: outcome, Ended: time.Now().Add(w.ahead), Replayed: true}
	})
	return unlock.Answer{Command: "command-of-" + site.CommandID(req.JTI), Outcome: outcome}, nil
}

// Claim is that of package unlock, in short.
func (w *world) Claim(id string, _ time.Time) (unlock.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return unlock.Answer{}, fault.Throttle("Too many", time.Second)
	}
	if first, ok := w.claimed[id]; ok {
		return first, fault.New(fault.Conflict, "came before")
	}
	w.events = append(w.events, "claim "+id)
	w.claimed[id] = unlock.Answer{Outcome: site.Requested, Replayed: true}
	return unlock.Answer{}, nil
}

func (w *world) Interrupted() []string { return w.interrupted }

// good is a command that holds for half a minute.
func (w *world) good(id string) api.Command {
	now := w.Now()
	return api.Command{
		ID: id, Gateway: gatewayID, Name: "unlock", Station: 1042, Lock: 2, Actor: "porter@example.test",
		IssuedAt: now, Expires: now.Add(30 * time.Second),
	}
}

func (w *world) sign(c api.Command) []byte {
	w.t.Helper()
	token, err := w.key.Sign(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return []byte(token)
}

// send has a new command handled, and carried out as far as that goes now.
func (w *world) send(c link.Commands, id string) {
	w.t.Helper()
	c.Handle(w.sign(w.good(id)), false, time.Now())
	synctest.Wait()
}

// sendTo is send for a station of its own.
func (w *world) sendTo(c link.Commands, station site.StationID, id string) {
	w.t.Helper()
	cmd := w.good(id)
	cmd.Station = station
	c.Handle(w.sign(cmd), false, time.Now())
	synctest.Wait()
}

// last returns the newest answer.
func (w *world) last() api.Result {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.results) == 0 {
		w.t.Fatal("nothing was answered")
	}
	return w.results[len(w.results)-1]
}

func (w *world) unlocks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.opened)
}

// counted returns how often the metrics counted a refusal for that reason.
func (w *world) counted(reason string) string {
	var text strings.Builder
	w.metrics.Write(&text)
	for line := range strings.Lines(text.String()) {
		if n, ok := strings.CutPrefix(line, `gatehouse_refusals_total{reason="cloud-`+reason+`"} `); ok {
			return strings.TrimSpace(n)
		}
	}
	return "0"
}
