// Package journal is the durable record of who opened what, when, and how it
// ended, and of every change an administrator made (contract, section 4). It is
// append-only, numbered without gaps and chained by SHA-256, so that a change or
// a removal shows. It is not the log: the log may be lost.
//
// Promise: [Service.Intend] returns only when the record is durable, or when the
// storage is failing and the record is kept in memory and in the system log; the
// gateway then reports that it is degraded. So no door opens without a record, and
// no failing disk keeps a door shut.
package journal

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"gatehouse/internal/site"
)

// Query selects records; zero fields do not select. Records come in order of seq.
type Query struct {
	AfterSeq  uint64
	BeforeSeq uint64
	Since     time.Time // at or after
	Until     time.Time // before
	Station   site.StationID
	Account   site.Email // who did it or to whose account it was done
	Kinds     []site.Kind
	Limit     int  // at most this many; zero means 1,000
	Newest    bool // where there are more than Limit, the newest of them
}

// Selects reports whether r is of one of the kinds and names the account.
func (q *Query) Selects(r *site.Record) bool {
	return (len(q.Kinds) == 0 || slices.Contains(q.Kinds, r.Kind)) &&
		(q.Account == "" || q.Account == r.Email || string(q.Account) == r.By)
}

// Size is how much the journal holds.
type Size struct {
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"` // of the records' text
	First   uint64 `json:"first"` // the oldest kept seq; 0 when empty
	Last    uint64 `json:"last"`  // the newest seq; 0 when none was ever written
}

// Retention is which records have to go. Zero sizes are not meant: without a bound,
// they are [math.MaxInt64].
type Retention struct {
	Before   time.Time // older ones go; a record ages by no step of the clock of more than a day
	MaxBytes int64     // the oldest go until the rest is no larger
	// Held is the last seq that the cloud has acknowledged. Later ones stay in spite of Before
	// and MaxBytes. [math.MaxInt64]: none is held.
	Held uint64
	// HardBytes is the size beyond which the oldest go whether the cloud has acknowledged them or
	// not, until the rest is a twentieth smaller. One record of kind gap then names those
	// that it had not, in the transaction that removes the first of these.
	HardBytes int64
}

// Evidence returns how many bytes the records of the kinds for which [site.Kind.Evidence]
// holds may take, without and with those that the cloud has not acknowledged: a quarter of
// all. Beyond that the oldest of them go before their turn, until the rest is a twentieth
// smaller. A record of the kind gap says between which numbers how many were removed.
func (r Retention) Evidence() (most, hard int64) { return r.MaxBytes / 4, r.HardBytes / 4 }

// Removed is what [Store.Prune] did.
type Removed struct {
	Records     int // all of them
	Undelivered int // of these, the ones that the cloud had not acknowledged
}

// Entry is a record as stored.
type Entry struct {
	Seq  uint64
	Body []byte // its JSON, unless it was damaged
}

// Verdict is what checking the chain found.
type Verdict struct {
	Records int    `json:"records"` // how many were checked
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Removed uint64 `json:"removed,omitempty"` // how many were removed before their turn, as the journal itself records; see [Retention.Evidence]
	Lost    uint64 `json:"lost,omitempty"`    // how many were lost by damage of the database, as the journal itself records
	Broken  uint64 `json:"broken,omitempty"`  // the first seq that was changed or removed; 0: sound
	Why     string `json:"why,omitempty"`     // what is wrong with it
}

// Store keeps the records. Its methods are safe for concurrent use; what cannot be
// written is fault.Unavailable.
type Store interface {
	// Keep makes a record durable before it returns nil. On any error the record is
	// kept in memory all the same and written as soon as the disk takes it, in its
	// place among the others: it must not be passed again. While the disk fails or
	// stalls, Keep returns at once. When ctx ends first, the error is fault.Timeout; before
	// it returns any other, the record is in the system log by [Log].
	Keep(ctx context.Context, r site.Record) error
	// AppendLater keeps a record in memory and writes it soon, again and again while
	// the disk fails. It never blocks. While the disk fails or stalls, the record goes to
	// the system log by [Log] before AppendLater returns.
	AppendLater(r site.Record)
	// Flush returns when what was passed before is durable, or with an error when the
	// disk takes nothing or ctx ends.
	Flush(ctx context.Context) error
	// Kept is how many records wait in memory.
	Kept() int
	// Read returns the selected records.
	Read(ctx context.Context, q Query) ([]site.Record, error)
	// Recent returns unlock records, oldest first: the newest ones up to most, and further
	// ones with an Idempotency-Key or a JTI that were written within span before the last
	// unlock of the same run of the gateway. It looks at the newest records of all kinds
	// up to within. The records of updates, of a restore and of lost records are included, damaged
	// ones are skipped.
	Recent(ctx context.Context, most, within int, span time.Duration) ([]site.Record, error)
	// Verify checks the whole chain.
	Verify(ctx context.Context) (Verdict, error)
	// Head returns the newest durable place of the chain; seq 0 before the first record.
	Head(ctx context.Context) (Head, error)
	// Testify compares witnesses with the journal, in their order.
	Testify(ctx context.Context, witnesses []Witness) ([]Testimony, error)
	// Size returns how much the journal holds; it reads no disk.
	Size() Size
	// Bytes is the size of the records' text; it asks no disk.
	Bytes() int64
	// Evidence is the part of these of which [Retention.Evidence] tells; it asks no disk.
	Evidence() int64
	// Latest is the newest durable seq.
	Latest() uint64
	// Oldest is the oldest kept seq, or the next one where none is kept; it asks no disk.
	Oldest() uint64
	// Prune removes the oldest records that have to go. It works in small steps and returns
	// how many it removed, also when it fails.
	Prune(ctx context.Context, r Retention) (Removed, error)
	// Watch registers the function that is called with the result of each transaction:
	// nil, ErrTight or the error of the disk, whose sentence says in a few words why.
	Watch(heard func(error))
}

// ErrTight reports that a transaction succeeded on a disk that is nearly full: an earlier
// one did not fit, and there has been no room since.
var ErrTight = errors.New("the disk is nearly full")

// Log writes a record that the disk does not take to the system log.
func Log(log *slog.Logger, r site.Record) {
	log.Warn("record kept in memory", "kind", r.Kind, "recorded", r.Time.String(), "origin", r.Origin, "account", r.Account, "by", r.Doer(),
		"station", int64(r.Station), "lock", r.Lock, "command", r.Command, "outcome", r.Outcome, "detail", r.Detail, "count", r.Count)
}
