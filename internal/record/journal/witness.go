package journal

import (
	"context"
	"time"

	"gatehouse/internal/site"
)

// Head is a place in the chain: a record and the hash that covers it and all before it.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"` // SHA-256 in hexadecimal
}

// Witness is a head that was kept out of reach of a program that can write to the
// journal's file: in the system log, the manifest of a backup, or the cloud's
// application. The chain alone detects changes that leave the hashes as they were; a
// file that was rewritten with all its hashes contradicts its witnesses.
type Witness struct {
	Source string         `json:"source"` // shown to the operator
	Time   site.Timestamp `json:"time"`   // when the head was kept; null where unknown
	Head
}

// Statement is the result of comparing a witness with a journal.
type Statement string

// The statements.
const (
	Agrees      Statement = "agrees"
	Contradicts Statement = "contradicts" // that record has another hash now, or the journal ends before it
	Gone        Statement = "gone"        // the record was removed by age or size, or lost; nothing to compare with
	Superseded  Statement = "superseded"  // kept before the gateway was restored from a backup, on a chain that ended then
)

// Testimony is a witness with its statement.
type Testimony struct {
	Witness
	Statement Statement `json:"statement"`
}

// headEvery is how often the head goes to the system log beside each start.
const headEvery = 24 * time.Hour

// LogHead writes the head of the chain to the system log, at once and once a day until
// ctx ends. Its line is what [HeadMessage] names, with the attributes seq and hash.
func (s *Service) LogHead(ctx context.Context) error {
	ticker := time.NewTicker(headEvery)
	defer ticker.Stop()
	for {
		head, err := s.Store.Head(ctx)
		switch {
		case err == nil && head.Seq > 0:
			s.Logger.Info(HeadMessage, "seq", head.Seq, "hash", head.Hash)
		case err != nil && ctx.Err() == nil:
			s.Logger.Warn("the journal's head cannot be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// HeadMessage begins the lines of the system log that hold a head.
const HeadMessage = "journal head"

// Testify compares witnesses with the journal, including the newest records. It does
// not check the chain itself; [Service.Verify] does.
func (s *Service) Testify(ctx context.Context, witnesses []Witness) ([]Testimony, error) {
	s.flush(ctx)
	return s.Store.Testify(ctx, witnesses)
}
