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

// group is of what a group is, with its members.
type group struct {
	kind    site.GroupKind
	members map[site.Member]bool
}

// Groups lists the groups by name, with their members in order.
func (s *Service) Groups() []site.Group {
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	out := make([]site.Group, 0, len(s.dir.groups))
	for name, g := range s.dir.groups {
		out = append(out, g.named(name))
	}
	slices.SortFunc(out, func(a, b site.Group) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Group returns the group of that name; NotFound.
func (s *Service) Group(name site.GroupName) (site.Group, error) {
	s.dir.mu.RLock()
	defer s.dir.mu.RUnlock()
	g, there := s.dir.groups[name]
	if !there {
		return site.Group{}, fault.New(fault.NotFound, fmt.Sprintf("There is no group %s", name))
	}
	return g.named(name), nil
}

func (g group) named(name site.GroupName) site.Group {
	members := slices.SortedFunc(maps.Keys(g.members), func(a, b site.Member) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Station, b.Station))
	})
	return site.Group{Name: name, Kind: g.kind, Members: members}
}

// AddGroup adds a group with its members. Conflict when there is one of that name, or when
// there are [site.MaxGroups]; Invalid for a member of the other kind; NotFound when a
// member is not there; Unavailable.
func (s *Service) AddGroup(ctx context.Context, by site.Actor, g site.Group, members []site.Member) error {
	return s.changes.Make(ctx, func() ([]site.Amendment, error) {
		_, err := s.Group(g.Name)
		switch {
		case err == nil:
			return nil, fault.New(fault.Conflict, fmt.Sprintf("There is a group %s already", g.Name))
		case len(s.Groups()) >= site.MaxGroups:
			return nil, fault.New(fault.Conflict, fmt.Sprintf("There are %d groups already, as many as there may be", site.MaxGroups))
		}
		return s.draftMembers(by, g, members, true, []site.Amendment{s.DraftGroup(by, g)})
	})
}

// ChangeGroup removes members of a group and adds others; those that are in it already, or
// not in it, do not matter. Errors as of AddGroup; NotFound when the group is not there.
func (s *Service) ChangeGroup(ctx context.Context, by site.Actor, name site.GroupName, add, remove []site.Member) error {
	return s.changes.Make(ctx, func() ([]site.Amendment, error) {
		g, err := s.Group(name)
		if err != nil {
			return nil, err
		}
		drafted, err := s.draftMembers(by, g, remove, false, nil)
		if err != nil {
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

// RemoveGroup removes a group with its grants. NotFound; Unavailable.
func (s *Service) RemoveGroup(ctx context.Context, by site.Actor, name site.GroupName) error {
	return s.changes.Make(ctx, func() ([]site.Amendment, error) {
		_, err := s.Group(name)
		return []site.Amendment{s.DraftGroupRemoval(by, name)}, err
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
	if g, err := s.Group(name); err != nil || g.Kind != kind {
		return fault.New(fault.NotFound, fmt.Sprintf("There is no group of %s %s", kind, name))
	}
	return nil
}

// adoptSchedule applies a stored amendment of groups or holidays.
func (d *directory) adoptSchedule(a site.Amendment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case a.AddGroup != nil:
		d.addGroup(*a.AddGroup)
	case a.RemoveGroup != "":
		delete(d.groups, a.RemoveGroup)
		d.dropHolder(who{group: a.RemoveGroup})
		d.dropTarget(what{group: a.RemoveGroup})
	case a.AddMember != nil:
		if g, there := d.groups[a.AddMember.Group]; there {
			g.members[*a.AddMember] = true
		}
	case a.RemoveMember != nil:
		delete(d.groups[a.RemoveMember.Group].members, *a.RemoveMember)
	case a.PutHoliday != nil:
		d.holidays[a.PutHoliday.Name] = *a.PutHoliday
	case a.RemoveHoliday != "":
		delete(d.holidays, a.RemoveHoliday)
	}
}

// addGroup enters a group with its members. The caller holds mu.
func (d *directory) addGroup(g site.Group) {
	entry := group{g.Kind, make(map[site.Member]bool, len(g.Members))}
	for _, m := range g.Members {
		entry.members[m] = true
	}
	d.groups[g.Name] = entry
}
