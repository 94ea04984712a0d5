package provision

import (
	"slices"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
)

// checkGroups finds groups that are of another kind on the gateway, members that are
// neither in the site nor on the gateway, and too many groups.
func (w *plan) checkGroups() {
	for _, g := range w.site.Groups {
		if old, there := w.groups[g.Name]; there && old.Kind != g.Kind() {
			w.problem(g.Lines, "name", "group %s is one of %s on the gateway: remove it first", g.Name, old.Kind)
		}
		for _, email := range g.Accounts {
			w.mustHaveAccount(g.Lines, "accounts", email)
		}
		for _, id := range g.Stations {
			w.mustHaveStation(g.Lines, id)
		}
		w.kinds[g.Name] = g.Kind()
	}
	if len(w.kinds) > site.MaxGroups {
		w.problem(nil, "", "there would be %d groups: at most %d", len(w.kinds), site.MaxGroups)
	}
}

// mustHaveGroup adds a problem where a group of that kind is neither in the site nor on the
// gateway.
func (w *plan) mustHaveGroup(lines sitefile.Lines, key string, name site.GroupName, kind site.GroupKind) {
	if w.kinds[name] != kind {
		w.problem(lines, key, "there is no group of %s %s, neither in the site nor on the gateway", kind, name)
	}
}

// pruneGroups drafts the removal of groups, members and holidays that the site does not
// name. Members go with their account or station.
func (w *plan) pruneGroups() {
	for _, g := range w.accounts.Groups() {
		i := slices.IndexFunc(w.site.Groups, func(s sitefile.Group) bool { return s.Name == g.Name })
		if i < 0 {
			if !w.named.groups[g.Name] {
				_ = w.add(site.KindGroupRemoved, "group "+string(g.Name), nil, w.accounts.DraftGroupRemoval(w.by, g.Name))
			}
			continue
		}
		for _, id := range g.Accounts {
			if email := w.emailByID[id]; w.named.accounts[email] && !slices.Contains(w.site.Groups[i].Accounts, email) {
				w.setMember(string(email), w.accountByEmail[email], site.Member{Group: g.Name}, false)
			}
		}
		for _, id := range g.Stations {
			if w.named.stations[id] && !slices.Contains(w.site.Groups[i].Stations, id) {
				w.setMember(w.stationWords(id), site.Account{}, site.Member{Group: g.Name, Station: id}, false)
			}
		}
	}
}

// setMember drafts that an account or a station is added to a group, or removed.
func (w *plan) setMember(words string, account site.Account, m site.Member, add bool) {
	what := words + " is in group " + string(m.Group)
	if !add {
		what = words + " is no longer in group " + string(m.Group)
	}
	_ = w.add(site.KindGroupChanged, what, nil, w.accounts.DraftMember(w.by, account, m, add))
}

func (w *plan) putGroups() error {
	for _, g := range w.site.Groups {
		old, there := w.groups[g.Name]
		if !there {
			drafted := w.accounts.DraftGroup(w.by, site.Group{Name: g.Name, Kind: g.Kind()})
			_ = w.add(site.KindGroupAdded, "group "+string(g.Name)+", of "+string(g.Kind()), nil, drafted)
		}
		for _, email := range distinct(g.Accounts) {
			if account := w.accountOf(email); !slices.Contains(old.Accounts, account.ID) {
				w.setMember(string(email), account, site.Member{Group: g.Name}, true)
			}
		}
		for _, id := range distinct(g.Stations) {
			if !slices.Contains(old.Stations, id) {
				w.setMember(w.stationWords(id), site.Account{}, site.Member{Group: g.Name, Station: id}, true)
			}
		}
	}
	return nil
}

// distinct returns a list in order, each element once.
func distinct[T site.Email | site.StationID](list []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// putHolidays adds dates to the list of holidays, or with pruning makes it that of the
// site.
func (w *plan) putHolidays() error {
	wanted := make([]site.Holiday, len(w.site.Holidays))
	for i, h := range w.site.Holidays {
		wanted[i] = h.Holiday
	}
	changed, err := w.accounts.JoinHolidays(wanted)
	if w.options.Prune {
		changed, err = w.pruneHolidays(wanted), nil
	}
	for _, h := range changed {
		_ = w.add(site.KindHolidayChanged, "holiday "+h.Name+": "+h.Text(), nil, w.accounts.DraftHoliday(w.by, h))
	}
	return err
}

// pruneHolidays drafts the removal of the holidays that the site does not name, and returns
// those whose dates are others.
func (w *plan) pruneHolidays(wanted []site.Holiday) (changed []site.Holiday) {
	changed = wanted
	for _, old := range w.accounts.Holidays() {
		same := func(h site.Holiday) bool { return h.Name == old.Name && slices.Equal(h.Dates, old.Dates) }
		if !slices.ContainsFunc(wanted, func(h site.Holiday) bool { return h.Name == old.Name }) {
			_ = w.add(site.KindHolidayRemoved, "holiday "+old.Name, nil, w.accounts.DraftHolidayRemoval(w.by, old.Name))
		}
		changed = slices.DeleteFunc(changed, same)
	}
	return changed
}
