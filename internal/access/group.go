package access

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Groups lists the groups by name, with their members in order.
func (s *Service) Groups() []site.Group {
	r := s.dir.rules()
	all := make(map[site.GroupName]*site.Group, len(r.groups))
	for name, kind := range r.groups {
		all[name] = &site.Group{Name: name, Kind: kind}
	}
	for m := range r.members {
		all[m.Group].Members = append(all[m.Group].Members, m)
	}
	out := make([]site.Group, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		slices.SortFunc(all[name].Members, func(a, b site.Member) int {
			return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Station, b.Station))
		})
		out = append(out, *all[name])
	}
	return out
}

// Group returns the group of that name; NotFound.
func (s *Service) Group(name site.GroupName) (site.Group, error) {
	all := s.Groups()
	i := slices.IndexFunc(all, func(g site.Group) bool { return g.Name == name })
	if i < 0 {
		return site.Group{}, errNoGroup(name)
	}
	return all[i], nil
}

func errNoGroup(name site.GroupName) error {
	return fault.New(fault.NotFound, fmt.Sprintf("There is no group %s", name))
}

// ChangeGroup adds members to a group and removes others; those that are in it already, or
// not in it, do not matter. A group that is not there is added, as one of that kind; ""
// requires that it is there. Who is removed may no longer open anything by the group at
// once, whatever it returns. NotFound when the group or a member is not there; Conflict when
// there are [site.MaxGroups]; Invalid for a member of the other kind; Unavailable.
func (s *Service) ChangeGroup(ctx context.Context, by site.Actor, name site.GroupName, kind site.GroupKind, add, remove []site.Member) error {
	change := s.changes.Make
	if len(remove) > 0 {
		change = s.changes.Revoke
	}
	return change(ctx, func() (drafted []site.Amendment, err error) {
		g, err := s.Group(name)
		switch {
		case err == nil:
		case kind == "":
			return nil, err
		case len(s.Groups()) >= site.MaxGroups:
			return nil, fault.New(fault.Conflict, fmt.Sprintf("There are %d groups already, as many as there may be", site.MaxGroups))
		default:
			g = site.Group{Name: name, Kind: kind}
			drafted = append(drafted, s.DraftGroup(by, g))
		}
		if drafted, err = s.draftMembers(by, g, remove, false, drafted); err != nil {
			return nil, err
		}
		return s.draftMembers(by, g, add, true, drafted)
	})
}

// draftMembers appends to amendments the adding or removing of members of a group, each
// once.
func (s *Service) draftMembers(by site.Actor, g site.Group, members []site.Member, add bool, to []site.Amendment) ([]site.Amendment, error) {
	is := make(map[site.Member]bool, len(g.Members))
	for _, m := range g.Members {
		is[m] = true
	}
	for _, m := range members {
		m.Group = g.Name
		account, known := s.dir.byID(m.Account)
		switch {
		case (m.Station == 0) != (g.Kind == site.OfAccounts):
			return nil, fault.New(fault.Invalid, fmt.Sprintf("The group %s is one of %s", g.Name, g.Kind))
		case m.Station == 0 && !known:
			return nil, errNoAccount
		case add != is[m]:
			is[m] = add
			to = append(to, s.DraftMember(by, account, m, add))
		}
	}
	return to, nil
}

// RemoveGroup removes a group with its grants, which end at once, whatever it returns.
// NotFound; Unavailable.
func (s *Service) RemoveGroup(ctx context.Context, by site.Actor, name site.GroupName) error {
	return s.changes.Revoke(ctx, func() ([]site.Amendment, error) {
		return removal(s.dir, func(r *rules) map[site.GroupName]site.GroupKind { return r.groups }, name, errNoGroup(name), s.DraftGroupRemoval(by, name))
	})
}

// DraftGroup drafts a new group without members.
func (s *Service) DraftGroup(by site.Actor, g site.Group) site.Amendment {
	detail := fmt.Sprintf("%s, a group of %s", g.Name, g.Kind)
	return site.Amendment{AddGroup: &g, Record: change(by, site.KindGroupAdded, site.Account{}, detail)}
}

// DraftGroupRemoval drafts the removal of a group with its grants.
func (s *Service) DraftGroupRemoval(by site.Actor, name site.GroupName) site.Amendment {
	return site.Amendment{RemoveGroup: name, Record: change(by, site.KindGroupRemoved, site.Account{}, string(name)+", with its grants")}
}

// DraftMember drafts that an account or a station is added to a group, or removed from it.
// Group and account, none for a station, may be drafts.
func (s *Service) DraftMember(by site.Actor, account site.Account, m site.Member, add bool) site.Amendment {
	m.Account = account.ID
	rec := change(by, site.KindGroupChanged, account, "added to the group "+string(m.Group))
	rec.Station = m.Station
	if add {
		return site.Amendment{AddMember: &m, Record: rec}
	}
	rec.Detail = "removed from the group " + string(m.Group)
	return site.Amendment{RemoveMember: &m, Record: rec}
}

// hasGroup returns NotFound where there is no group of that name and kind.
func (s *Service) hasGroup(name site.GroupName, kind site.GroupKind) error {
	if s.dir.rules().groups[name] != kind {
		return fault.New(fault.NotFound, fmt.Sprintf("There is no group of %s %s", kind, name))
	}
	return nil
}
