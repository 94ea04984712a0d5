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
		for _, member := range g.Refs() {
			w.mustHave(g.Lines, string(g.Kind()), member, "")
		}
		w.kinds[g.Name] = g.Kind()
	}
	if len(w.kinds) > site.MaxGroups {
		w.problem(nil, "", "there would be %d groups: at most %d", len(w.kinds), site.MaxGroups)
	}
}

// pruneGroups drafts the removal of groups and members that the site does not name.
// Members go with their account or station.
func (w *plan) pruneGroups() {
	for _, g := range w.accounts.Groups() {
		group := site.Ref{Group: g.Name}
		if !w.named.refs[group] {
			_ = w.add(site.KindGroupRemoved, "group "+string(g.Name), nil, w.accounts.DraftGroupRemoval(w.by, g.Name))
			continue
		}
		if !slices.ContainsFunc(w.site.Groups, func(s sitefile.Group) bool { return s.Name == g.Name }) {
			continue // a grant names it
		}
		for _, m := range g.Members {
			member := site.Ref{Email: w.emailByID[m.Account], Station: m.Station}
			if w.named.refs[member] && !w.named.members[pair{group, member}] {
				w.setMember(m, member, false)
			}
		}
	}
}

// setMember drafts that an account or a station is added to a group, or removed.
func (w *plan) setMember(m site.Member, member site.Ref, add bool) {
	is := " is in group "
	if !add {
		is = " is no longer in group "
	}
	_ = w.add(site.KindGroupChanged, w.words(member)+is+string(m.Group), nil, w.accounts.DraftMember(w.by, w.accountOf(member.Email), m, add))
}

func (w *plan) putGroups() error {
	for _, g := range w.site.Groups {
		if _, there := w.groups[g.Name]; !there {
			drafted := w.accounts.DraftGroup(w.by, site.Group{Name: g.Name, Kind: g.Kind()})
			_ = w.add(site.KindGroupAdded, "group "+string(g.Name)+", of "+string(g.Kind()), nil, drafted)
		}
		for _, member := range g.Refs() {
			m := site.Member{Group: g.Name, Account: w.accountOf(member.Email).ID, Station: member.Station}
			if !w.members[m] {
				w.members[m] = true
				w.setMember(m, member, true)
			}
		}
	}
	return nil
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
