package provision

import (
	"context"

	"golang.org/x/sync/errgroup"

	"gatehouse/internal/fault"
	"gatehouse/internal/sitefile"
)

// How many changes are made at once: enough for the store to write several with
// one flush of the disk, and for the processor to hash passwords without a pile of
// others waiting.
const (
	oneAtATime     = 1
	accountsAtOnce = 4
	changesAtOnce  = 16
)

// step is one change. When do succeeds it says what it issued, if anything.
type step struct {
	change sitefile.Change
	do     func(context.Context) (issued, error)
}

// issued is what a step made; at most one of its fields is set.
type issued struct {
	account *sitefile.IssuedAccount
	station *sitefile.IssuedStation
}

// stage is steps that do not depend on one another. Stages run one after another.
type stage struct {
	atOnce int
	steps  []step
}

// preview lists the changes of stages without making them.
func preview(stages []stage) (r sitefile.Result) {
	for _, st := range stages {
		for _, s := range st.steps {
			r.Changes = append(r.Changes, s.change)
		}
	}
	return r
}

// run makes the changes; the result holds those that were made, in their order.
func run(ctx context.Context, stages []stage) (r sitefile.Result, err error) {
	for _, st := range stages {
		made, err := st.run(ctx)
		for i, s := range st.steps {
			if made[i] != nil {
				r.Changes = append(r.Changes, s.change)
				r.Accounts = appendIf(r.Accounts, made[i].account)
				r.Stations = appendIf(r.Stations, made[i].station)
			}
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// run makes the changes of one stage, several at once. After the first failure it
// begins no more. What was made stands at the index of its step.
func (st stage) run(ctx context.Context) ([]*issued, error) {
	made := make([]*issued, len(st.steps))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(st.atOnce)
	for i, s := range st.steps {
		group.Go(func() error {
			if ctx.Err() != nil {
				return fault.Wrap(fault.Timeout, "The request was given up on the way", ctx.Err())
			}
			out, err := s.do(ctx)
			if err != nil {
				return naming(s.change.What, err)
			}
			made[i] = &out
			return nil
		})
	}
	return made, group.Wait()
}

// naming puts before the sentence of err what it is about; the kind stays.
func naming(what string, err error) error {
	return &fault.Error{
		Kind: fault.KindOf(err), Sentence: what + ": " + fault.Sentence(err),
		RetryAfter: fault.RetryAfter(err), Err: err,
	}
}

func appendIf[T any](list []T, element *T) []T {
	if element == nil {
		return list
	}
	return append(list, *element)
}
