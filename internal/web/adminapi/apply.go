package adminapi

import (
	"fmt"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/kit"
)

func (a *API) apply(r *request) (any, error) {
	in, err := kit.Decode[ApplyRequest](&r.Request)
	if err != nil {
		return nil, err
	}
	parsed, err := in.Site.parse()
	if err != nil {
		return nil, err
	}
	result, err := a.Provisioner.Apply(r.Context(), r.Actor, parsed, sitefile.Options{DryRun: in.DryRun, Prune: in.Prune})
	if err != nil {
		return nil, err
	}
	return appliedOf(result), nil
}

func appliedOf(r sitefile.Result) Applied {
	out := Applied{Changes: []Change{}, Accounts: []IssuedAccount{}, Stations: []IssuedStation{}}
	for _, c := range r.Changes {
		out.Changes = append(out.Changes, Change(c))
	}
	for _, a := range r.Accounts {
		out.Accounts = append(out.Accounts, IssuedAccount{AccountID: a.ID, Email: a.Email, Password: a.Password.Reveal()})
	}
	for _, s := range r.Stations {
		out.Stations = append(out.Stations, issuedStation(s.ID, s.Token, s.Secret))
	}
	return out
}

// parse reads the texts of a site; whether they fit together is for
// [sitefile.Site.Check] to say.
func (s Site) parse() (sitefile.Site, error) {
	out := sitefile.Site{TimeZone: s.TimeZone}
	var problems []sitefile.Problem
	for i, a := range s.Accounts {
		email, err := site.ParseEmail(a.Email)
		problems = noting(problems, "account", i, err)
		out.Accounts = append(out.Accounts, sitefile.Account{Email: email, Password: site.Secret(a.Password), Admin: a.Admin})
	}
	for i, st := range s.Stations {
		locks, err := st.locks()
		problems = noting(problems, "station", i, err)
		out.Stations = append(out.Stations, sitefile.Station{
			ID: st.ID, Name: st.Name, Locks: locks, Secret: site.Secret(st.Secret), Token: site.Secret(st.Token),
		})
	}
	for i, g := range s.Grants {
		grant, err := g.parse()
		problems = noting(problems, "grant", i, err)
		out.Grants = append(out.Grants, grant)
	}
	if err := sitefile.Report("", problems); err != nil {
		return out, fault.New(fault.Invalid, err.Error())
	}
	return out, nil
}

// locks gives 0 when the number of locks is not stated.
func (s SiteStation) locks() (int, error) {
	if s.Locks == nil {
		return 0, nil
	}
	if *s.Locks < 1 || *s.Locks > site.MaxLocks {
		return 0, fmt.Errorf("locks must be from 1 to %d, not %d", site.MaxLocks, *s.Locks)
	}
	return *s.Locks, nil
}

func (g SiteGrant) parse() (sitefile.Grant, error) {
	out := sitefile.Grant{Stations: g.Stations, From: timeOf(g.From), Until: timeOf(g.Until)}
	var err error
	if out.Account, err = site.ParseEmail(g.Account); err != nil {
		return out, err
	}
	out.Hours, err = site.ParseSchedule(g.Hours)
	return out, err
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// noting adds err, about the element i of a table, to problems; nil adds nothing.
func noting(problems []sitefile.Problem, table string, i int, err error) []sitefile.Problem {
	if err == nil {
		return problems
	}
	return append(problems, sitefile.Problem{Text: fmt.Sprintf("%s %d: %s", table, i+1, err)})
}
