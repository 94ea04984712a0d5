package journal

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"gatehouse/internal/health"
)

const (
	// pruneEvery is how often retention is applied, and pruneLook how often the journal is
	// looked at in between, because it may be larger than it should be.
	pruneEvery = time.Hour
	pruneLook  = time.Minute
	// pruneWorth is how many records that the cloud has acknowledged are worth a removal of
	// their own: while a backlog is handed over, each acknowledgement frees some.
	pruneWorth = 1000
	// backlogHigh and backlogLow are the percents of the hard size from which, and below
	// which no longer, records that wait for the cloud are a condition.
	backlogHigh, backlogLow = 80, 70
)

// SetRetention changes how long records are kept and how much room they may take, in
// bytes, without and with those that the cloud has not acknowledged; zero is without bound. It
// takes effect with the next removal.
func (s *Service) SetRetention(maxAge time.Duration, maxSize, hardSize int64) {
	s.maxAge.Store(int64(maxAge))
	maxSize = cmp.Or(maxSize, math.MaxInt64)
	s.maxSize.Store(maxSize)
	s.hardSize.Store(max(maxSize, cmp.Or(hardSize, math.MaxInt64)))
}

// Run applies retention until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(pruneLook)
	defer ticker.Stop()
	var last time.Time
	for {
		if time.Since(last) >= pruneEvery || s.overfull() {
			removed, err := s.Prune(ctx)
			s.report(ctx, removed, err)
			last = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// report logs what retention did.
func (s *Service) report(ctx context.Context, removed Removed, err error) {
	if err != nil && ctx.Err() == nil {
		s.Logger.Warn("retention did not finish", "error", err, "removed", removed.Records)
	} else if removed.Records > 0 {
		s.Logger.Info("old records removed", "removed", removed.Records)
	}
	if removed.Undelivered > 0 {
		s.Logger.Error("records removed that the cloud had not taken; the journal reached its hard size", "removed", removed.Undelivered)
	}
}

// Prune applies retention once.
func (s *Service) Prune(ctx context.Context) (Removed, error) {
	r := Retention{MaxBytes: s.maxSize.Load(), Held: s.held(), HardBytes: s.hardSize.Load()}
	if age := s.maxAge.Load(); age > 0 && s.Clock.Trusted() { // an untrusted clock must not age records
		r.Before = s.Clock.Now().Add(-time.Duration(age))
	}
	removed, err := s.Store.Prune(ctx, r)
	if err != nil {
		return removed, fmt.Errorf("removing old records: %w", err)
	}
	return removed, nil
}

// overfull reports whether the journal is a tenth larger than it may be and enough records
// may be removed, or whether it is larger than its hard size.
func (s *Service) overfull() bool {
	all := Retention{MaxBytes: s.maxSize.Load(), HardBytes: s.hardSize.Load()}
	most, hard := all.Evidence()
	return s.exceeds(s.Store.Bytes(), all.MaxBytes, all.HardBytes) || s.exceeds(s.Store.Evidence(), most, hard)
}

func (s *Service) exceeds(bytes, most, hard int64) bool {
	return bytes > hard || bytes-most > most/10 && s.held() >= s.Store.Oldest()+pruneWorth
}

// held is the last seq that may go at any time.
func (s *Service) held() uint64 {
	if s.Held == nil {
		return math.MaxInt64
	}
	return min(s.Held(), math.MaxInt64)
}

// watchBacklog raises and clears the condition that much waits for the cloud.
func (s *Service) watchBacklog() {
	waiting, hard := s.waiting(), float64(s.hardSize.Load())
	switch {
	case waiting >= hard*backlogHigh/100 && !s.backlog.Swap(true):
		s.Health.Raise(health.Condition{
			Code: health.CloudBacklog, Severity: health.Warning,
			Summary: fmt.Sprintf("Records that the cloud has not taken fill more than %d %% of what the journal may hold for it; beyond that the oldest are removed", backlogHigh),
			Advice:  "See what is wrong with gatehouse cloud status; for more room set hard_size in [journal]",
		})
	case waiting < hard*backlogLow/100 && s.backlog.Swap(false):
		s.Health.Clear(health.CloudBacklog)
	}
}

// waiting is about how many bytes the records take that the cloud has not acknowledged.
func (s *Service) waiting() float64 {
	oldest, latest := s.Store.Oldest(), s.Store.Latest()
	from := max(s.held()+1, oldest)
	if from > latest {
		return 0
	}
	return float64(s.Store.Bytes()) * float64(latest-from+1) / float64(latest-oldest+1)
}
