package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

const (
	// patience is how long an unlock waits for a slow disk before it goes on without
	// it. It leaves most of a command's deadline to the station.
	patience = 2 * time.Second
	// pruneEvery is how often retention is applied.
	pruneEvery = time.Hour
)

// Config is what a Service needs.
type Config struct {
	Store   Store
	Clock   site.Clock
	Logger  *slog.Logger
	Health  *health.Registry
	Metrics *metric.Registry
	MaxAge  time.Duration // of a record, until SetRetention; zero: for ever
	MaxSize int64         // of all records' text, in bytes, until SetRetention; zero: without bound
	// Held gives the last seq that the cloud has taken, where a cloud link is
	// configured: later records are never pruned. Nil where there is none.
	Held func() uint64
}

// Service is the journal. Its methods are safe for concurrent use.
type Service struct {
	Config
	maxAge  atomic.Int64  // of a record, in nanoseconds; 0: for ever
	maxSize atomic.Int64  // of all records' text, in bytes; 0: without bound
	stalled atomic.Bool   // storage failed or stalled at the last try
	full    chan struct{} // capacity 1: the journal is a tenth larger than it may be

	mu   sync.Mutex                 // mu guards subs
	subs map[chan struct{}]struct{} // one wake-up channel per follower
}

// New gives the journal on cfg.Store.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Clock == nil || cfg.Logger == nil || cfg.Health == nil || cfg.Metrics == nil {
		return nil, errors.New("the journal needs a store, a clock, a logger, health and metrics")
	}
	s := &Service{Config: cfg, full: make(chan struct{}, 1), subs: make(map[chan struct{}]struct{})}
	s.SetRetention(cfg.MaxAge, cfg.MaxSize)
	cfg.Store.Watch(s.heard)
	cfg.Metrics.Gauge("gatehouse_journal_last_seq", func() float64 { return float64(cfg.Store.Latest()) })
	cfg.Metrics.Gauge("gatehouse_journal_memory_records", func() float64 { return float64(cfg.Store.Kept()) })
	cfg.Metrics.Gauge("gatehouse_journal_bytes", func() float64 { return float64(cfg.Store.Bytes()) })
	return s, nil
}

// SetRetention changes how long records are kept and how much room they may take, in
// bytes; zero is without bound. It holds from the next time that records are removed.
func (s *Service) SetRetention(maxAge time.Duration, maxSize int64) {
	s.maxAge.Store(int64(maxAge))
	s.maxSize.Store(maxSize)
}

// Intend writes the record that must exist before a command leaves. It returns once
// the record is durable; while the storage fails or stalls, once the record is in
// memory and in the system log. It ends within 2 s whatever the disk does.
func (s *Service) Intend(r site.Record) {
	if s.stalled.Load() {
		s.Store.AppendLater(r)
		Log(s.Logger, r)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := s.Store.Keep(ctx, r)
	if err == nil {
		return
	}
	s.fail(err)
	if fault.Is(err, fault.Timeout) { // else the store has logged it
		Log(s.Logger, r)
	}
}

// AppendLater writes a record soon; nobody waits for it. While the storage fails it
// waits in memory and stands in the system log.
func (s *Service) AppendLater(r site.Record) { s.Store.AppendLater(r) }

// heard takes the end of each transaction from the store.
func (s *Service) heard(err error) {
	if err != nil {
		s.fail(err)
		return
	}
	if s.stalled.Swap(false) {
		s.Health.Clear(health.StorageFailing)
		s.Logger.Info("storage works again")
	}
	if most := s.maxSize.Load(); most > 0 && s.Store.Bytes() > most+most/10 {
		select {
		case s.full <- struct{}{}:
		default:
		}
	}
	s.wakeAll()
}

func (s *Service) fail(err error) {
	if !s.stalled.Swap(true) {
		s.Logger.Error("storage fails; doors still open, records are kept in memory", "error", err)
	}
	s.Health.Raise(health.Condition{
		Code: health.StorageFailing, Severity: health.Warning,
		Summary: "The storage takes no writes; doors still open, records are kept in memory and in the system log",
		Advice:  "Check free space with df and the disk's health with dmesg; replace the card if it is worn",
	})
}

// Read gives the selected records, those among them that were written a moment ago.
func (s *Service) Read(ctx context.Context, q Query) ([]site.Record, error) {
	s.flush(ctx)
	return s.Store.Read(ctx, q)
}

// Verify checks the whole chain; it reads every record.
func (s *Service) Verify(ctx context.Context) (Verdict, error) {
	s.flush(ctx)
	return s.Store.Verify(ctx)
}

// flush lets who reads see what was answered before. While the storage fails, what
// is on the disk has to do.
func (s *Service) flush(ctx context.Context) {
	if s.stalled.Load() || s.Store.Kept() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = s.Store.Flush(ctx) // its failure is told by the watcher
}

// Size says how much the journal holds.
func (s *Service) Size(ctx context.Context) (Size, error) { return s.Store.Size(ctx) }

// Latest is the newest durable seq.
func (s *Service) Latest() uint64 { return s.Store.Latest() }

// Subscribe gives a channel (capacity 1) that is sent to after each durable
// change, so that a follower reads on from where it was. cancel ends it.
func (s *Service) Subscribe() (wake <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	s.subs[ch] = struct{}{}
	s.mu.Unlock()
	return ch, func() {
		s.mu.Lock()
		delete(s.subs, ch)
		s.mu.Unlock()
	}
}

func (s *Service) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Run applies retention until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		if removed, err := s.Prune(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("retention did not finish", "error", err, "removed", removed)
		} else if removed > 0 {
			s.Logger.Info("old records removed", "removed", removed)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-s.full:
		}
	}
}

// Prune applies retention once.
func (s *Service) Prune(ctx context.Context) (removed int, err error) {
	var before time.Time
	if age := s.maxAge.Load(); age > 0 && s.Clock.Trusted() { // an untrusted clock must not age records
		before = s.Clock.Now().Add(-time.Duration(age))
	}
	maxBytes := s.maxSize.Load()
	if maxBytes <= 0 {
		maxBytes = math.MaxInt64
	}
	keepAfter := uint64(math.MaxInt64)
	if s.Held != nil {
		keepAfter = s.Held()
	}
	removed, err = s.Store.Prune(ctx, before, maxBytes, keepAfter)
	if err != nil {
		return removed, fmt.Errorf("removing old records: %w", err)
	}
	return removed, nil
}

// recentWithin bounds what RecentUnlocks looks through, so that a start stays quick.
const (
	recentUnlocks = 2000
	recentWithin  = 20_000
)

// RecentUnlocks gives the newest 2,000 unlock records, oldest first.
func (s *Service) RecentUnlocks(ctx context.Context) ([]site.Record, error) {
	return s.Store.Recent(ctx, site.KindUnlock, recentUnlocks, recentWithin)
}

// OfCommand gives the records of one command, oldest first. The id, a version 7
// UUID, tells the time around which to look.
func (s *Service) OfCommand(ctx context.Context, id site.CommandID) ([]site.Record, error) {
	parsed, err := uuid.Parse(string(id))
	if err != nil || parsed.Version() != 7 {
		return nil, nil //nolint:nilerr // a text that is no command's id has no records
	}
	seconds, nanos := parsed.Time().UnixTime()
	return s.Store.OfCommand(ctx, id, time.Unix(seconds, nanos).Add(-time.Minute))
}
