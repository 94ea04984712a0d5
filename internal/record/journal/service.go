package journal

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// patience is how long an unlock waits for a slow disk before it goes on without
// it. It leaves most of a command's deadline to the station.
const patience = 2 * time.Second

// Config is what a Service needs.
type Config struct {
	Store   Store
	Clock   site.Clock
	Logger  *slog.Logger
	Health  *health.Registry
	Metrics *metric.Registry
	MaxAge  time.Duration // of a record, until SetRetention; zero: for ever
	MaxSize int64         // of all records' text, in bytes, until SetRetention; zero: without bound
	// HardSize is how large the text of all records may become for the sake of those that
	// the cloud has not acknowledged, until SetRetention; zero: without bound.
	HardSize int64
	// Held returns the last seq that the cloud has acknowledged: later records are kept beyond
	// MaxAge and MaxSize up to HardSize. It must be quick and may be called concurrently.
	// Nil, or math.MaxInt64 from it: there is no cloud link.
	Held func() uint64
}

// Service is the journal. Its methods are safe for concurrent use.
type Service struct {
	Config
	maxAge   atomic.Int64 // of a record, in nanoseconds; 0: for ever
	maxSize  atomic.Int64 // of all records' text, in bytes; [math.MaxInt64]: without bound
	hardSize atomic.Int64 // the same, with those that are held; never less than maxSize
	stalled  atomic.Bool  // storage failed or stalled at the last try
	failing  atomic.Bool  // whether health.StorageFailing is raised
	backlog  atomic.Bool  // whether health.CloudBacklog is raised

	mu   sync.Mutex                 // mu guards subs
	subs map[chan struct{}]struct{} // one wake-up channel per follower
}

// New returns the journal on cfg.Store.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Clock == nil || cfg.Logger == nil || cfg.Health == nil || cfg.Metrics == nil {
		return nil, errors.New("the journal needs a store, a clock, a logger, health and metrics")
	}
	s := &Service{Config: cfg, subs: make(map[chan struct{}]struct{})}
	s.SetRetention(cfg.MaxAge, cfg.MaxSize, cfg.HardSize)
	cfg.Store.Watch(s.heard)
	cfg.Metrics.Gauge("gatehouse_journal_last_seq", func() float64 { return float64(cfg.Store.Latest()) })
	cfg.Metrics.Gauge("gatehouse_journal_memory_records", func() float64 { return float64(cfg.Store.Kept()) })
	cfg.Metrics.Gauge("gatehouse_journal_bytes", func() float64 { return float64(cfg.Store.Bytes()) })
	return s, nil
}

// Intend writes the record that must exist before a command leaves. It returns once
// the record is durable; while the storage fails or stalls, once the record is in
// memory and in the system log. It ends within 2 s whatever the disk does; durable
// reports whether the record is on disk then.
func (s *Service) Intend(r site.Record) (durable bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := s.Store.Keep(ctx, r)
	if fault.Is(err, fault.Timeout) { // the disk is slow, but answers
		Log(s.Logger, r)
	}
	return err == nil // on any other error the store has logged the record
}

// AppendLater writes a record soon, and does not wait for that. While the storage fails
// the record waits in memory, and is in the system log.
func (s *Service) AppendLater(r site.Record) { s.Store.AppendLater(r) }

// heard is called by the store with the result of each transaction.
func (s *Service) heard(err error) {
	tight := errors.Is(err, ErrTight)
	s.stalled.Store(err != nil && !tight)
	switch {
	case tight:
		s.raise("The disk is nearly full: it takes small writes, and no larger ones; doors still open")
	case err != nil:
		if !s.failing.Swap(true) {
			s.Logger.Error("storage fails; doors still open, records are kept in memory", "error", err)
		}
		s.raise("The storage takes no writes: " + fault.Sentence(err) + "; doors still open, records are kept in memory and in the system log")
		return
	case s.failing.Swap(false):
		s.Health.Clear(health.StorageFailing)
		s.Logger.Info("storage works again")
	}
	s.watchBacklog()
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.subs {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (s *Service) raise(summary string) {
	s.Health.Raise(health.Condition{
		Code: health.StorageFailing, Severity: health.Warning,
		Summary: summary,
		Advice:  "Check free space with df and the disk's health with dmesg; replace the card if it is worn",
	})
}

// Read returns the selected records, with those that were written a moment ago.
func (s *Service) Read(ctx context.Context, q Query) ([]site.Record, error) {
	s.flush(ctx)
	return s.Store.Read(ctx, q)
}

// Verify checks the whole chain; it reads every record.
func (s *Service) Verify(ctx context.Context) (Verdict, error) {
	s.flush(ctx)
	return s.Store.Verify(ctx)
}

// flush lets a reader see what was answered before. While the storage fails, only what
// is on the disk is read.
func (s *Service) flush(ctx context.Context) {
	if s.stalled.Load() || s.Store.Kept() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = s.Store.Flush(ctx) // the watcher reports a failure
}

// Size returns how much the journal holds; it reads no disk.
func (s *Service) Size() Size { return s.Store.Size() }

// Latest is the newest durable seq.
func (s *Service) Latest() uint64 { return s.Store.Latest() }

// Subscribe returns a channel (capacity 1) that is sent to after each durable
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

// Bounds of what RecentUnlocks looks through, so that a start stays quick.
const (
	recentUnlocks = 2000
	recentWithin  = 20_000
)

// RecentUnlocks returns the newest 2,000 unlock records, oldest first, and further ones with
// an Idempotency-Key or a JTI that were written within span before the last unlock of the
// same run; but none beyond the newest 20,000 records of all kinds. The records of updates,
// of a restore and of lost records are included.
func (s *Service) RecentUnlocks(ctx context.Context, span time.Duration) ([]site.Record, error) {
	return s.Store.Recent(ctx, recentUnlocks, recentWithin, span)
}
