package sqlite

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

const (
	// leastStep is the least step of the clock between two records that is kept, in
	// milliseconds. The time for which the gateway was switched off counts as one.
	leastStep = int64(24 * time.Hour / time.Millisecond)
	// mostSteps bounds how many steps are kept. Beyond it the oldest two are joined.
	mostSteps = 64
)

// clockStep is a step of the clock. No record ages by a step, which a wrong time server may cause:
// retention by age holds the records before it back until they have aged while the gateway ran.
type clockStep struct {
	Seq uint64 `json:"seq"` // the first record after it
	By  int64  `json:"by"`  // milliseconds; negative: back
}

// steps are the steps of the clock that the journal has kept records from before.
type steps struct {
	at    int64     // the time of the newest record, in milliseconds since 1970 UTC; 0: there is none
	wrote time.Time // when it was written
	kept  []clockStep
	moved bool // table meta does not have them yet
}

// to returns how far the clock has stepped since the newest record if it is at a time now; 0 where
// that is less than a day.
func (s *steps) to(at int64) int64 {
	if by := at - s.at; s.at == 0 || -leastStep < by && by < leastStep {
		return 0
	}
	by := at - s.at - time.Since(s.wrote).Milliseconds()
	if -leastStep < by && by < leastStep {
		return 0
	}
	return by
}

// follow takes note of a record that is the newest now.
func (s *steps) follow(seq uint64, at int64) {
	by := s.to(at)
	s.at = at
	if by == 0 {
		return
	}
	s.kept, s.moved = append(slices.Clone(s.kept), clockStep{seq, by}), true
	if len(s.kept) > mostSteps {
		s.kept[1].By += s.kept[0].By
		s.kept = s.kept[1:]
	}
}

// after returns how much later a record counts as written than its time, in milliseconds; less
// than zero where its time was ahead.
func (s *steps) after(seq uint64) (by int64) {
	for _, step := range s.kept {
		if step.Seq > seq {
			by += step.By
		}
	}
	return by
}

// drop removes the steps before the oldest record.
func (s *steps) drop(first uint64) {
	if kept := slices.DeleteFunc(slices.Clone(s.kept), func(step clockStep) bool { return step.Seq <= first }); len(kept) < len(s.kept) {
		s.kept, s.moved = kept, true
	}
}

// hold ensures, at the end of a transaction, that the disk holds the steps.
func (s *steps) hold(t *transaction) error {
	if !s.moved {
		return nil
	}
	s.moved = false
	text, _ := json.Marshal(s.kept) // numbers can be written
	return t.setMeta(metaSteps, string(text))
}

// readSteps returns the steps in a file that is being opened. What is damaged is skipped: it
// must not keep every door shut.
func (db *DB) readSteps(ctx context.Context, q queryer) (s steps, err error) {
	s.wrote = time.Now()
	if err := q.QueryRowContext(ctx, "SELECT coalesce((SELECT time FROM journal ORDER BY seq DESC LIMIT 1), 0)").Scan(&s.at); err != nil {
		return s, err
	}
	text, err := readMeta(ctx, q, metaSteps)
	if err == nil && text != "" {
		if damaged := json.Unmarshal([]byte(text), &s.kept); damaged != nil {
			db.log.Error("the steps of the clock are damaged", "error", damaged)
		}
	}
	return s, err
}
