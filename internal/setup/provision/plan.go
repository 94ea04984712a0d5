package provision

import (
	"fmt"
	"maps"
	"slices"

	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
)

// plan is what a site changes. Its maps show the gateway as it is now.
type plan struct {
	*Service
	by      site.Actor
	site    sitefile.Site
	options sitefile.Options

	accountByEmail map[site.Email]site.Account
	emailByID      map[site.AccountID]site.Email
	stationByID    map[site.StationID]site.Station
	stationNames   map[site.StationID]string // of the gateway and of the site, as they are to be
	groups         map[site.GroupName]site.Group
	kinds          map[site.GroupName]site.GroupKind // of the gateway and of the site
	members        map[site.Member]bool
	grants         []site.Grant
	named          named
	problems       []tomlfile.Problem

	added      map[site.Email]site.Account // by draft
	result     sitefile.Result
	amendments []site.Amendment // in the order in which they are stored
}

// named is what a site names anywhere, also in a grant: pruning spares it.
type named struct {
	refs    map[site.Ref]bool
	members map[pair]bool // of the groups that the site states
	grants  map[pair]bool
}

// pair names a grant, or a member of a group.
type pair struct{ who, what site.Ref }

// look reads what is on the gateway.
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
	w.groups = make(map[site.GroupName]site.Group)
	w.kinds = make(map[site.GroupName]site.GroupKind)
	w.members = make(map[site.Member]bool)
	for _, g := range w.accounts.Groups() {
		w.groups[g.Name], w.kinds[g.Name] = g, g.Kind
		for _, m := range g.Members {
			w.members[m] = true
		}
	}
	w.grants = w.accounts.Grants()
}

func namesOf(s sitefile.Site) named {
	n := named{refs: map[site.Ref]bool{}, members: map[pair]bool{}, grants: map[pair]bool{}}
	for _, a := range s.Accounts {
		n.refs[site.Ref{Email: a.Email}] = true
	}
	for _, st := range s.Stations {
		n.refs[site.Ref{Station: st.ID}] = true
	}
	for _, g := range s.Groups {
		group := site.Ref{Group: g.Name}
		n.refs[group] = true
		for _, member := range g.Refs() {
			n.refs[member], n.members[pair{group, member}] = true, true
		}
	}
	for _, g := range s.Grants {
		for _, what := range g.Stations {
			n.refs[g.Account], n.refs[what], n.grants[pair{g.Account, what}] = true, true, true
		}
	}
	return n
}

// problem adds what is wrong with a key of a table of the site.
func (w *plan) problem(lines sitefile.Lines, key, format string, args ...any) {
	w.problems = append(w.problems, tomlfile.Problem{File: w.site.File, Line: lines.Of(key), Text: fmt.Sprintf(format, args...)})
}

// check finds what does not fit the gateway. Conflict.
func (w *plan) check() error {
	w.problems = nil
	w.checkGroups()
	w.checkGrants()
	w.checkTokens()
	if err := tomlfile.Report(w.problems); err != nil {
		return fault.New(fault.Conflict, err.Error())
	}
	if w.options.Prune && !w.options.Force {
		return w.checkPrune()
	}
	return nil
}

// checkGrants finds grants of what is neither in the site nor on the gateway.
func (w *plan) checkGrants() {
	for _, g := range w.site.Grants {
		w.mustHave(g.Lines, "account", g.Account, site.OfAccounts)
		for _, what := range g.Stations {
			w.mustHave(g.Lines, "stations", what, site.OfStations)
		}
	}
}

// mustHave adds a problem where an account, a station or a group of that kind is neither in
// the site nor on the gateway.
func (w *plan) mustHave(lines sitefile.Lines, key string, r site.Ref, kind site.GroupKind) {
	noun := "account"
	var there bool
	switch {
	case r.Group != "":
		noun, there = "group of "+string(kind), w.kinds[r.Group] == kind
	case r.Station != 0:
		noun = "station"
		_, there = w.stationNames[r.Station]
	default:
		_, there = w.accountByEmail[r.Email]
		there = there || slices.ContainsFunc(w.site.Accounts, func(a sitefile.Account) bool { return a.Email == r.Email })
	}
	if !there {
		w.problem(lines, key, "there is no %s %s, neither in the site nor on the gateway", noun, r)
	}
}

// checkTokens finds station tokens that another station keeps.
func (w *plan) checkTokens() {
	holder := map[site.Secret]site.StationID{}
	for id, s := range w.stationByID {
		if !w.options.Prune || w.named.refs[site.Ref{Station: id}] {
			holder[s.Token] = id
		}
	}
	for _, s := range w.site.Stations {
		if other, held := holder[s.Token]; held && other != s.ID {
			w.problem(s.Lines, "token", "station %d cannot have this token: station %d has it on the gateway; give that one another token first", s.ID, other)
		}
	}
}

// checkPrune refuses to remove everything, or the last administrator.
func (w *plan) checkPrune() error {
	groupsOnly := !slices.ContainsFunc(slices.Collect(maps.Keys(w.named.refs)), func(r site.Ref) bool { return r.Group == "" })
	if groupsOnly && len(w.accountByEmail)+len(w.stationByID) > 0 {
		return fault.New(fault.Conflict, "The site names no account and no station: pruning would remove all of them; use --force if that is meant")
	}
	admins := map[site.Email]bool{} // as they are to be
	before := false
	for email, a := range w.accountByEmail {
		before = before || a.Admin
		admins[email] = a.Admin && w.named.refs[site.Ref{Email: email}]
	}
	for _, a := range w.site.Accounts {
		if a.Admin != nil {
			admins[a.Email] = *a.Admin
		}
	}
	if before && !slices.Contains(slices.Collect(maps.Values(admins)), true) {
		return fault.New(fault.Conflict, "No administrator would be left: name one in the site, or use --force if that is meant")
	}
	return nil
}

// draft drafts all changes, against what is on the gateway now, in the order in which
// they are stored: what is removed, then time zone, accounts, stations, groups, holidays,
// grants.
func (w *plan) draft(hashes map[site.Email]credential) error {
	w.look()
	if err := w.check(); err != nil {
		return err
	}
	w.added, w.result = map[site.Email]site.Account{}, sitefile.NewResult()
	for _, part := range []func() error{
		w.prune, w.timeZone, func() error { return w.putAccounts(hashes) }, w.putStations, w.putGroups, w.putHolidays, w.putGrants,
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// add adds a change with its amendments, unless it could not be drafted. A change without
// amendments is part of the one before.
func (w *plan) add(kind site.Kind, what string, err error, amendments ...site.Amendment) error {
	if err != nil {
		return naming(what, err)
	}
	w.result.Changes = append(w.result.Changes, sitefile.Change{Kind: string(kind), What: what})
	w.amendments = append(w.amendments, amendments...)
	return nil
}

// prune drafts the removal of what the site does not name, if that is wanted. Grants go
// with their account or station.
func (w *plan) prune() error {
	if !w.options.Prune {
		return nil
	}
	for _, a := range w.accounts.Accounts() {
		if w.named.refs[site.Ref{Email: a.Email}] {
			continue
		}
		amendment, err := w.accounts.DraftRemoval(w.by, a.Email)
		if err := w.add(site.KindAccountRemoved, "account "+string(a.Email), err, amendment); err != nil {
			return err
		}
	}
	for _, s := range w.stations.Stations() {
		if !w.named.refs[site.Ref{Station: s.ID}] {
			_ = w.add(site.KindStationRemoved, wordsOf(s.ID, s.Name), nil, w.stations.DraftRemoval(w.by, s.ID))
		}
	}
	w.pruneGroups()
	for _, g := range w.grants {
		if p := w.pairOf(g); w.named.refs[p.who] && w.named.refs[p.what] && !w.named.grants[p] {
			_ = w.add(site.KindUngranted, w.words(p.who)+" may no longer use "+w.words(p.what), nil, w.accounts.DraftWithdrawal(w.by, g.Key()))
		}
	}
	return nil
}

func (w *plan) timeZone() error {
	name := w.site.TimeZone
	if name == "" || name == w.zone.TimeZone() {
		return nil
	}
	amendment, err := w.zone.Draft(w.by, name)
	return w.add(site.KindTimeZone, "time zone "+name, err, amendment)
}

// naming prefixes the sentence of err with its subject, and keeps the kind.
func naming(what string, err error) error {
	return &fault.Error{
		Kind: fault.KindOf(err), Sentence: what + ": " + fault.Sentence(err),
		RetryAfter: fault.RetryAfter(err), Err: err,
	}
}
