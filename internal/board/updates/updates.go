package updates

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const (
	// readEvery is how often the status is read at most, and how often Run looks for an
	// outcome.
	readEvery = time.Second
	// storePatience is how long writing an outcome waits for the disk before it is tried
	// again.
	storePatience = 5 * time.Second
	// maxPending bounds the outcomes that wait for the disk.
	maxPending = 16
)

// Exchange is the files between the gateway and root; [slot.Exchange] satisfies it.
type Exchange interface {
	// Ask leaves a request for root, and Asked reports whether one waits. Ask is called once at
	// a time.
	Ask(r slot.Request) error
	Asked() bool
	// ReadStatus returns what root wrote; NotFound where there is none.
	ReadStatus() (site.UpdateStatus, error)
}

// Journal is where requests are recorded; package journal satisfies it.
type Journal interface {
	// Intend returns when the record is durable, or kept while the storage fails; durable
	// reports which.
	Intend(r site.Record) (durable bool)
	// AppendLater writes a record soon and does not wait.
	AppendLater(r site.Record)
}

// Store remembers which outcome has its record; package sqlite satisfies it. Errors are
// fault.Unavailable while the disk fails.
type Store interface {
	// UpdateEnd returns what the last RecordUpdate was called with, "" before the first.
	UpdateEnd(ctx context.Context) (string, error)
	// RecordUpdate remembers an outcome and writes its record, both or neither.
	RecordUpdate(ctx context.Context, end string, r site.Record) error
}

// Config is what a Service needs: all of it.
type Config struct {
	Exchange Exchange
	Journal  Journal
	Store    Store
	Clock    site.Clock
	Logger   *slog.Logger
	Zone     func() *time.Location // of the site, for sentences
}

// Service is the gateway's side of updates. Its methods are safe for concurrent use.
type Service struct {
	Config

	mu       sync.Mutex // mu guards what follows
	readAt   time.Time
	status   site.UpdateStatus
	readable bool // the last read succeeded: the next failure is logged

	asking sync.Mutex // held from the check of an order until root is asked: the exchange takes one request at a time

	pending  []outcome // without a record, in order; Run's own
	recorded string    // the newest outcomes, recorded or pending, as in outcome; Run's own
}

// outcome is how an update has ended.
type outcome struct {
	site.LastUpdate
	ends string // endOf of the one in Before of the status then, and of this one
}

// New returns the service. It starts nothing.
func New(cfg Config) *Service { return &Service{Config: cfg, readable: true} }

// Status returns how updates stand, as root said within the last second. Where this system
// was not started from an image, only Image and Advice are set. It reads one small file of
// a memory file system, once a second at most.
func (s *Service) Status() site.UpdateStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.readAt.IsZero() || now.Sub(s.readAt) >= readEvery {
		s.readAt, s.status = now, s.read()
	}
	status := s.status
	if status.Last != nil {
		status.Last = new(*status.Last)
	}
	if status.Before != nil {
		status.Before = new(*status.Before)
	}
	return status
}

// Sentence returns the status as one text of complete sentences.
func (s *Service) Sentence() string {
	return strings.Join(s.Status().Sentences(s.Zone()), " ")
}

// read reads the status; mu is held.
func (s *Service) read() site.UpdateStatus {
	status, err := s.Exchange.ReadStatus()
	failed := err != nil && !fault.Is(err, fault.NotFound)
	if failed && s.readable {
		s.Logger.Warn("the status of updates cannot be read", "error", err)
	}
	s.readable = !failed
	if err != nil || !status.Image {
		return site.UpdateStatus{Advice: Advice()}
	}
	status.TakeBack = false // between root and the database alone
	return status
}

// Run records each outcome that root states, until ctx ends. What is not recorded then
// is at the next start.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(readEvery)
	defer ticker.Stop()
	known := false
	for {
		if !known {
			known = s.remember(ctx)
		}
		if known {
			s.follow(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// remember reads which outcome has its record; false while the disk fails.
func (s *Service) remember(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	end, err := s.Store.UpdateEnd(ctx)
	s.recorded = end
	return err == nil
}

// follow notes new outcomes, and records those that wait, in order.
func (s *Service) follow(ctx context.Context) {
	status, ends := s.Status(), ""
	for _, last := range []*site.LastUpdate{status.Before, status.Last} {
		if last == nil {
			continue
		}
		end := endOf(*last)
		if ends += end; !strings.Contains(s.recorded, end) {
			s.pending = append(s.pending, outcome{*last, ends})
		}
	}
	if ends != "" {
		s.recorded = ends
	}
	if n := len(s.pending); n > maxPending { // the disk has taken nothing for long: the newest say most
		s.pending = s.pending[n-maxPending:]
	}
	for len(s.pending) > 0 && ctx.Err() == nil {
		if s.record(ctx, s.pending[0]) != nil {
			return
		}
		s.pending = s.pending[1:]
	}
}

// record writes the record of an outcome.
func (s *Service) record(ctx context.Context, last outcome) error {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	err := s.Store.RecordUpdate(ctx, last.ends, site.Record{Kind: site.KindUpdate, Facts: site.Facts{
		Outcome: site.Outcome(last.Outcome), Version: last.Version, Detail: last.Reason,
	}})
	if err == nil {
		s.Logger.Info("an update has ended", "version", last.Version, "outcome", last.Outcome, "reason", last.Reason)
	}
	return err
}

// endOf identifies an outcome: a JSON object, which is not part of another.
func endOf(last site.LastUpdate) string {
	text, _ := json.Marshal(last) // texts and a time can be written
	return string(text)
}
