package provision

import (
	"context"

	"golang.org/x/sync/errgroup"

	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// hashesAtOnce is how many passwords wait to be hashed at once.
const hashesAtOnce = 4

// step is one change of a plan.
type step struct {
	change sitefile.Change
	// hash hashes a password, before the turn to change comes; nil where there is none.
	hash func(context.Context) error
	// draft drafts the change, once no other change can be made; nil where the step before
	// has drafted it.
	draft func(*draft) error
}

// draft is the result of a plan.
type draft struct {
	by         site.Actor
	accounts   map[site.Email]site.Account      // as they will be
	stations   map[site.StationID]*site.Station // likewise
	amendments []site.Amendment
	result     sitefile.Result
}

// preview lists the changes of a plan without making them.
func preview(steps []step) (r sitefile.Result) {
	for _, s := range steps {
		r.Changes = append(r.Changes, s.change)
	}
	return r
}

// hash hashes the passwords of all steps, several at once.
func hash(ctx context.Context, steps []step) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(hashesAtOnce)
	for _, s := range steps {
		if s.hash == nil {
			continue
		}
		group.Go(func() error { return naming(s.change.What, s.hash(ctx)) })
	}
	return group.Wait()
}

// run applies the changes of a plan: all of them or none.
func (w *plan) run(ctx context.Context, steps []step) (sitefile.Result, error) {
	if len(steps) == 0 {
		return sitefile.Result{}, nil
	}
	if err := hash(ctx, steps); err != nil {
		return sitefile.Result{}, err
	}
	var d *draft
	err := w.changes.Make(ctx, func() (_ []site.Amendment, err error) {
		if err := w.checkUnchanged(); err != nil {
			return nil, err
		}
		if d, err = w.draft(steps); err != nil {
			return nil, err
		}
		return d.amendments, nil
	})
	if err != nil {
		return sitefile.Result{}, err
	}
	d.result.Changes = preview(steps).Changes
	return d.result, nil
}

func (w *plan) draft(steps []step) (*draft, error) {
	d := &draft{by: w.by, accounts: map[site.Email]site.Account{}, stations: map[site.StationID]*site.Station{}}
	for email, account := range w.accountByEmail {
		d.accounts[email] = account
	}
	for id, st := range w.stationByID {
		d.stations[id] = &st
	}
	for _, s := range steps {
		if s.draft == nil {
			continue
		}
		if err := s.draft(d); err != nil {
			return nil, naming(s.change.What, err)
		}
	}
	return d, nil
}

// add adds an amendment, unless it could not be drafted.
func (d *draft) add(a site.Amendment, err error) error {
	if err == nil {
		d.amendments = append(d.amendments, a)
	}
	return err
}

// addAll is add for several.
func (d *draft) addAll(all []site.Amendment, err error) error {
	d.amendments = append(d.amendments, all...)
	return err
}

// naming prefixes the sentence of err with its subject; it keeps the kind, and returns
// nil for nil.
func naming(what string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{
		Kind: fault.KindOf(err), Sentence: what + ": " + fault.Sentence(err),
		RetryAfter: fault.RetryAfter(err), Err: err,
	}
}
