package provision

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// plan is the work of finding out what a site changes. Its maps show the gateway
// as it is now.
type plan struct {
	*Service
	by    site.Actor
	site  sitefile.Site
	prune bool

	accountByEmail map[site.Email]site.Account
	emailByID      map[site.AccountID]site.Email
	stationByID    map[site.StationID]site.Station
	stationNames   map[site.StationID]string // as they are to be
	grants         []site.Grant
	named          named
	problems       []sitefile.Problem
}

// named is what a site names anywhere, also in a grant: pruning spares it.
type named struct {
	accounts map[site.Email]bool
	stations map[site.StationID]bool
	grants   map[pair]bool
}

// pair names a grant.
type pair struct {
	account site.Email
	station site.StationID
}

// plan returns the changes in the order in which they are applied: time zone, accounts,
// stations, grants; within each, first what is removed. Error: Invalid, Conflict, or
// that of comparing passwords.
func (p *Service) plan(ctx context.Context, by site.Actor, s sitefile.Site, prune bool) (*plan, []step, error) {
	w := &plan{Service: p, by: by, site: s, prune: prune, named: namesOf(s)}
	w.look()
	w.checkGrants()
	tokens := w.tokens()
	if err := sitefile.Report("", w.problems); err != nil {
		return nil, nil, fault.New(fault.Conflict, err.Error())
	}
	accounts, err := w.accountsToChange(ctx)
	if err != nil {
		return nil, nil, err
	}
	return w, slices.Concat(
		w.timeZone(), w.accountsToRemove(), accounts,
		w.stationsToRemove(), tokens, w.stationsToChange(),
		w.grantsToRemove(), w.grantsToPut(),
	), nil
}

// errChanged says that the plan is of a gateway that is not as it was.
var errChanged = fault.New(fault.Conflict, "The gateway was changed at the same time; apply the site again")

// checkUnchanged returns Conflict if what the plan has read was changed since.
func (w *plan) checkUnchanged() error {
	now := &plan{Service: w.Service, site: w.site}
	now.look()
	if !maps.Equal(w.accountByEmail, now.accountByEmail) || !maps.Equal(w.stationByID, now.stationByID) || !slices.EqualFunc(w.grants, now.grants, equalGrants) {
		return errChanged
	}
	return nil
}

func equalGrants(a, b site.Grant) bool {
	return a.Account == b.Account && a.Station == b.Station && sameTerms(a, b)
}

// look takes note of what is on the gateway.
func (w *plan) look() {
	w.accountByEmail = make(map[site.Email]site.Account)
	w.emailByID = make(map[site.AccountID]site.Email)
	w.stationByID = make(map[site.StationID]site.Station)
	w.stationNames = make(map[site.StationID]string)
	for _, a := range w.accounts.Accounts() {
		w.accountByEmail[a.Email] = a
		w.emailByID[a.ID] = a.Email
	}
	for _, s := range w.stations.Stations() {
		w.stationByID[s.ID] = s
		w.stationNames[s.ID] = s.Name
	}
	for _, s := range w.site.Stations {
		w.stationNames[s.ID] = nameOf(s, w.stationNames[s.ID])
	}
	w.grants = w.accounts.Grants()
}

func namesOf(s sitefile.Site) named {
	n := named{accounts: map[site.Email]bool{}, stations: map[site.StationID]bool{}, grants: map[pair]bool{}}
	for _, a := range s.Accounts {
		n.accounts[a.Email] = true
	}
	for _, st := range s.Stations {
		n.stations[st.ID] = true
	}
	for _, g := range s.Grants {
		n.accounts[g.Account] = true
		for _, id := range g.Stations {
			n.stations[id] = true
			n.grants[pair{g.Account, id}] = true
		}
	}
	return n
}

func (w *plan) problem(format string, args ...any) {
	w.problems = append(w.problems, sitefile.Problem{Text: fmt.Sprintf(format, args...)})
}

// checkGrants finds grants of what is neither in the site nor on the gateway.
func (w *plan) checkGrants() {
	accounts, stations := map[site.Email]bool{}, map[site.StationID]bool{}
	for _, a := range w.site.Accounts {
		accounts[a.Email] = true
	}
	for _, s := range w.site.Stations {
		stations[s.ID] = true
	}
	for i, g := range w.site.Grants {
		if _, there := w.accountByEmail[g.Account]; !there && !accounts[g.Account] {
			w.problem("grant %d names account %s, which is neither in the site nor on the gateway", i+1, g.Account)
		}
		for _, id := range g.Stations {
			if _, there := w.stationByID[id]; !there && !stations[id] {
				w.problem("grant %d names station %d, which is neither in the site nor on the gateway", i+1, id)
			}
		}
	}
}

func (w *plan) timeZone() []step {
	name := w.site.TimeZone
	if name == "" || name == w.zone.TimeZone() {
		return nil
	}
	return []step{{
		change: change(site.KindTimeZone, "time zone "+name),
		draft:  func(d *draft) error { return d.add(w.zone.Draft(d.by, name)) },
	}}
}

func (w *plan) accountsToRemove() (steps []step) {
	if !w.prune {
		return nil
	}
	for _, a := range w.accounts.Accounts() {
		if w.named.accounts[a.Email] {
			continue
		}
		steps = append(steps, step{
			change: change(site.KindAccountRemoved, "account "+string(a.Email)),
			draft:  func(d *draft) error { return d.add(w.accounts.DraftRemoval(d.by, a.Email)) },
		})
	}
	return steps
}

// accountsToChange compares the passwords of accounts that exist, several at once,
// because that takes as long as setting them.
func (w *plan) accountsToChange(ctx context.Context) ([]step, error) {
	byAccount := make([][]step, len(w.site.Accounts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(hashesAtOnce)
	for i, a := range w.site.Accounts {
		old, there := w.accountByEmail[a.Email]
		if !there {
			byAccount[i] = []step{w.addAccount(a)}
			continue
		}
		group.Go(func() (err error) {
			byAccount[i], err = w.changeAccount(ctx, old, a)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(byAccount...), nil
}

func (w *plan) addAccount(a sitefile.Account) step {
	admin := a.Admin != nil && *a.Admin
	what := "account " + string(a.Email)
	if admin {
		what += ", an administrator"
	}
	password, generated := a.Password, site.Secret("")
	if password == "" {
		generated = access.GeneratePassword()
		password = generated
	}
	var hashed site.Secret
	return step{
		change: change(site.KindAccountAdded, what),
		hash: func(ctx context.Context) (err error) {
			hashed, err = w.accounts.HashPassword(ctx, a.Email, password)
			return err
		},
		draft: func(d *draft) error {
			added := w.accounts.DraftAccount(d.by, a.Email, hashed, admin)
			d.accounts[a.Email] = *added.AddAccount
			d.result.Accounts = append(d.result.Accounts, sitefile.IssuedAccount{ID: added.AddAccount.ID, Email: a.Email, Password: generated})
			return d.add(added, nil)
		},
	}
}

// changeAccount drafts role and password together, with the first of their steps: each
// is a whole account.
func (w *plan) changeAccount(ctx context.Context, old site.Account, a sitefile.Account) (steps []step, err error) {
	what := "account " + string(a.Email)
	if a.Admin != nil && *a.Admin != old.Admin {
		role := ": an administrator from now on"
		if !*a.Admin {
			role = ": no administrator any more"
		}
		steps = append(steps, step{change: change(site.KindAccountChanged, what+role)})
	}
	var hashed site.Secret
	if a.Password != "" {
		matches, err := w.accounts.PasswordMatches(ctx, string(a.Email), a.Password)
		if err != nil {
			return nil, naming(what, err)
		}
		if !matches {
			steps = append(steps, step{
				change: change(site.KindAccountChanged, what+": new password"),
				hash: func(ctx context.Context) (err error) {
					hashed, err = w.accounts.HashPassword(ctx, a.Email, a.Password)
					return err
				},
			})
		}
	}
	if len(steps) > 0 {
		steps[0].draft = func(d *draft) error {
			return d.addAll(w.accounts.DraftChange(d.by, a.Email, a.Admin, hashed))
		}
	}
	return steps, nil
}

func change(kind site.Kind, what string) sitefile.Change {
	return sitefile.Change{Kind: string(kind), What: what}
}
