// Package journal is the durable record of who opened what, when, and how it
// ended, and of every change an administrator made (contract, section 4). It is
// append-only, numbered without gaps and chained by SHA-256, so that a change or
// a removal shows. It is not the log: the log may be lost.
//
// Promise: [Service.Intend] returns only when the record is durable, or when the
// storage is failing and the record is kept in memory and in the system log; the
// gateway then says that it is degraded. So no door opens without a record, and
// no failing disk keeps a door shut.
package journal

import (
	"context"
	"time"

	"gatehouse/internal/site"
)

// Query selects records; zero fields do not select. Records come in order of seq.
type Query struct {
	AfterSeq uint64
	Since    time.Time // at or after
	Until    time.Time // before
	Station  site.StationID
	Kinds    []site.Kind
	Command  site.CommandID
	Limit    int // at most this many; zero means 1,000
}

// Matches reports whether the query selects r, its Limit and AfterSeq aside.
func (q Query) Matches(r site.Record) bool {
	switch {
	case !q.Since.IsZero() && r.Time.Before(q.Since),
		!q.Until.IsZero() && !r.Time.Before(q.Until),
		q.Station != 0 && r.Station != q.Station,
		q.Command != "" && r.Command != q.Command:
		return false
	}
	if len(q.Kinds) == 0 {
		return true
	}
	for _, kind := range q.Kinds {
		if r.Kind == kind {
			return true
		}
	}
	return false
}

// Size says how much the journal holds.
type Size struct {
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"` // of the records' text
	First   uint64 `json:"first"` // the oldest kept seq; 0 when empty
	Last    uint64 `json:"last"`  // the newest seq; 0 when none was ever written
}

// Verdict is what checking the chain found.
type Verdict struct {
	Records int    `json:"records"` // how many were checked
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Broken  uint64 `json:"broken"`        // the first seq that was changed or removed; 0: sound
	Why     string `json:"why,omitempty"` // what is wrong with it
}

// Store keeps the records. Its methods are safe for concurrent use; what cannot be
// written is fault.Unavailable.
type Store interface {
	// Append makes records durable, in one transaction, before it returns nil. When
	// ctx ends first the records stay queued and the error is fault.Timeout.
	Append(ctx context.Context, records ...site.Record) error
	// AppendLater keeps a record in memory and writes it soon, again and again while
	// the disk fails. It never blocks.
	AppendLater(r site.Record)
	// Kept is how many records wait in memory.
	Kept() int
	// Read gives the selected records.
	Read(ctx context.Context, q Query) ([]site.Record, error)
	// Verify checks the whole chain.
	Verify(ctx context.Context) (Verdict, error)
	// Size is quick.
	Size(ctx context.Context) (Size, error)
	// Latest is the newest durable seq.
	Latest() uint64
	// Prune removes the oldest records that are older than before, and as many more
	// as maxBytes asks for; never one after keepAfter. It works in small steps and
	// says how many it removed.
	Prune(ctx context.Context, before time.Time, maxBytes int64, keepAfter uint64) (removed int, err error)
	// Watch names the function that hears how each transaction ended.
	Watch(heard func(error))
}
