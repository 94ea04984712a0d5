package main

import (
	"context"
	"errors"
)

var errNotOpened = errors.New("the answer is success:false")

// verdict is what a journal says of what clients and stations have seen.
type verdict struct {
	records  int // unlocks in the journal
	answered int // unlocks that a client was told to have succeeded
	lost     int // of them, those without a record
	unasked  int // openings without a record
}

// judge compares the journal on the disk of the machine, which is off, with what
// clients and stations have seen. The chain of the journal must be whole.
func (t *trial) judge(ctx context.Context) (verdict, error) {
	d := t.pullData(ctx)
	if d.err != nil {
		return verdict{}, d.err
	}
	answered, opened := t.record.copies()
	v := verdict{records: len(d.unlocks), answered: len(answered)}
	for id := range answered {
		if !d.unlocks[id] {
			v.lost++
		}
	}
	for id := range opened {
		if !d.unlocks[id] {
			v.unasked++
		}
	}
	return v, nil
}
