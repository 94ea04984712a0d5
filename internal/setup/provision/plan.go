package provision

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
)

// plan is what a site changes. Its maps show the gateway as it is now, and where that is
// said the site too.
type plan struct {
	*Service
	by      site.Actor
	site    sitefile.Site
	options sitefile.Options

	accountByEmail map[site.Email]site.Account
	accountByID    map[site.AccountID]site.Account // and those that the site adds
	stationByID    map[site.StationID]site.Station
	stationNames   map[site.StationID]string   // as they are to be
	kinds          map[site.Ref]site.GroupKind // what is there or in the site: accounts, stations and the groups of them
	named          named
	problems       []tomlfile.Problem

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
	w.accountByID = make(map[site.AccountID]site.Account)
	w.stationByID = make(map[site.StationID]site.Station)
	w.stationNames = make(map[site.StationID]string)
	w.kinds = make(map[site.Ref]site.GroupKind)
	for _, a := range w.accounts.Accounts() {
		w.accountByEmail[a.Email], w.accountByID[a.ID] = a, a
		w.kinds[site.Ref{Email: a.Email}] = site.OfAccounts
	}
	for _, a := range w.site.Accounts {
		w.kinds[site.Ref{Email: a.Email}] = site.OfAccounts
	}
	for _, s := range w.stations.Stations() {
		w.stationByID[s.ID], w.stationNames[s.ID] = s, s.Name
		w.kinds[site.Ref{Station: s.ID}] = site.OfStations
	}
	for _, s := range w.site.Stations {
		w.stationNames[s.ID] = nameOf(s, w.stationNames[s.ID])
		w.kinds[site.Ref{Station: s.ID}] = site.OfStations
	}
	for _, g := range w.accounts.Groups() {
		w.kinds[site.Ref{Group: g.Name}] = g.Kind
	}
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
	for _, g := range w.site.Grants {
		w.mustHave(g.Lines, "account", g.Account, site.OfAccounts)
		for _, what := range g.Stations {
			w.mustHave(g.Lines, "stations", what, site.OfStations)
		}
	}
	w.checkTokens()
	if err := tomlfile.Report(w.problems); err != nil {
		return fault.New(fault.Conflict, err.Error())
	}
	if w.options.Prune && !w.options.Force {
		return w.checkPrune()
	}
	return nil
}

// checkGroups finds groups that are of another kind on the gateway, members that are
// neither in the site nor on the gateway, and too many groups.
func (w *plan) checkGroups() {
	for _, g := range w.site.Groups {
		group := site.Ref{Group: g.Name}
		if kind := w.kinds[group]; kind != "" && kind != g.Kind() {
			w.problem(g.Lines, "name", "group %s is one of %s on the gateway: remove it first", g.Name, kind)
		}
		w.kinds[group] = g.Kind()
		for _, member := range g.Refs() {
			w.mustHave(g.Lines, string(g.Kind()), member, g.Kind())
		}
	}
	count := 0
	for r := range w.kinds {
		if r.Group != "" {
			count++
		}
	}
	if count > site.MaxGroups {
		w.problem(nil, "", "there would be %d groups: at most %d", count, site.MaxGroups)
	}
}

// mustHave adds a problem where an account, a station or a group of that kind is neither in
// the site nor on the gateway.
func (w *plan) mustHave(lines sitefile.Lines, key string, r site.Ref, kind site.GroupKind) {
	if w.kinds[r] == kind {
		return
	}
	noun := strings.TrimSuffix(string(kind), "s")
	if r.Group != "" {
		noun = "group of " + string(kind)
	}
	w.problem(lines, key, "there is no %s %s, neither in the site nor on the gateway", noun, r)
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
	w.result = sitefile.NewResult()
	for _, part := range []func() error{
		w.prune, w.timeZone, func() error { return w.putAccounts(hashes) }, w.putStations, w.putGroups, w.putHolidays, w.putGrants,
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// revoking returns the part of the amendments that takes effect where they cannot be stored
// (contract, section 4, "A revocation is final"), without what adds a right or sets a password.
func (w *plan) revoking() (out []site.Amendment) {
	for _, a := range w.amendments {
		switch {
		case a.PutGrant != nil:
			out = append(out, w.accounts.DraftNarrowing(w.by, w.accountByID[a.PutGrant.Account], *a.PutGrant)...)
		case a.UpdateAccount != nil && a.UpdateAccount.Password != "", a.PutHoliday != nil, a.RemoveHoliday != "", a.TimeZone != "":
		case a.UpdateStation != nil:
			r, _ := a.Revoking()
			if r.Record.Detail = a.Record.Detail; r.LimitStation != nil {
				r.LimitStation.Token = ""
			}
			out = append(out, r)
		default:
			if r, ok := a.Revoking(); ok {
				out = append(out, r)
			}
		}
	}
	return out
}

// add adds amendments, each with the change that its record states, unless they could not
// be drafted.
func (w *plan) add(err error, amendments ...site.Amendment) error {
	if err != nil {
		return err
	}
	for _, a := range amendments {
		w.amendments = append(w.amendments, a)
		w.result.Changes = append(w.result.Changes, sitefile.Change{Kind: string(a.Record.Kind), What: w.words(a)})
	}
	return nil
}

// words returns what is changed in words: the account, the station, and how.
func (w *plan) words(a site.Amendment) string {
	r, parts := a.Record, []string{}
	if r.Email != "" {
		parts = append(parts, string(r.Email))
	}
	if name := w.stationNames[r.Station]; name != "" {
		parts = append(parts, fmt.Sprintf("station %s (%s)", r.Station, name))
	} else if r.Station != 0 {
		parts = append(parts, "station "+r.Station.String())
	}
	if r.Detail != "" {
		parts = append(parts, r.Detail)
	}
	if g := a.PutGrant; g != nil && !g.Until.IsZero() && g.Until.Before(time.Now()) {
		parts = append(parts, "which is over")
	}
	return strings.Join(parts, ", ")
}

// prune drafts the removal of the accounts, stations, groups and grants that the site does
// not name, if that is wanted. Grants and members go with their account, station or group.
func (w *plan) prune() error {
	if !w.options.Prune {
		return nil
	}
	for _, a := range w.accounts.Accounts() {
		if !w.named.refs[site.Ref{Email: a.Email}] {
			removal, err := w.accounts.DraftRemoval(w.by, a.Email)
			if err := w.add(err, removal); err != nil {
				return err
			}
		}
	}
	for _, s := range w.stations.Stations() {
		if !w.named.refs[site.Ref{Station: s.ID}] {
			_ = w.add(nil, w.stations.DraftRemoval(w.by, s.ID))
		}
	}
	for _, g := range w.accounts.Groups() {
		if !w.named.refs[site.Ref{Group: g.Name}] {
			_ = w.add(nil, w.accounts.DraftGroupRemoval(w.by, g.Name))
		}
	}
	for _, g := range w.accounts.Grants() {
		who := site.Ref{Email: w.accountByID[g.Account].Email, Group: g.AccountGroup}
		what := site.Ref{Station: g.Station, Group: g.StationGroup}
		if w.named.refs[who] && w.named.refs[what] && !w.named.grants[pair{who, what}] {
			_ = w.add(nil, w.accounts.DraftWithdrawal(w.by, g.Key()))
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
	return w.add(err, amendment)
}

// putGroups adds what is missing of groups, and with pruning removes the other members.
func (w *plan) putGroups() error {
	present := make(map[site.GroupName]site.Group)
	for _, g := range w.accounts.Groups() {
		present[g.Name] = g
	}
	for _, g := range w.site.Groups {
		var add, remove []site.Member
		for _, r := range g.Refs() {
			add = append(add, site.Member{Account: w.accountByEmail[r.Email].ID, Station: r.Station})
		}
		for _, m := range present[g.Name].Members {
			member := site.Ref{Email: w.accountByID[m.Account].Email, Station: m.Station}
			if w.options.Prune && w.named.refs[member] && !w.named.members[pair{site.Ref{Group: g.Name}, member}] {
				remove = append(remove, m)
			}
		}
		account := func(id site.AccountID) (site.Account, bool) { a, there := w.accountByID[id]; return a, there }
		drafted, err := w.accounts.DraftGroup(w.by, site.Group{Name: g.Name, Kind: g.Kind()}, add, remove, account)
		if err := w.add(err, drafted...); err != nil {
			return err
		}
	}
	return nil
}

// putHolidays adds dates to the list of holidays, or with pruning makes it that of the
// site.
func (w *plan) putHolidays() error {
	if w.site.Holidays == nil && !w.options.Prune {
		return nil
	}
	wanted := make([]site.Holiday, len(w.site.Holidays))
	for i, h := range w.site.Holidays {
		wanted[i] = h.Holiday
	}
	drafted, err := w.accounts.DraftHolidays(w.by, wanted, w.options.Prune)
	return w.add(err, drafted...)
}

func (w *plan) putGrants() error {
	for _, g := range w.site.Grants {
		for _, what := range g.Stations {
			wanted := site.Grant{AccountGroup: g.Account.Group, Station: what.Station, StationGroup: what.Group, Terms: g.Terms}
			drafted, err := w.accounts.DraftGrant(w.by, w.accountByEmail[g.Account.Email], wanted)
			if err := w.add(err, drafted...); err != nil {
				return err
			}
		}
	}
	return nil
}
