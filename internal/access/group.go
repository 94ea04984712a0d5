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
// once, also after Unavailable, and stays removed where the others cannot be added after
// that. NotFound when the group or a member is not there; Conflict when there are
// [site.MaxGroups]; Invalid for a member of the other kind.
func (s *Service) ChangeGroup(ctx context.Context, by site.Actor, name site.GroupName, kind site.GroupKind, add, remove []site.Member) error {
	draft := func(remove []site.Member) ([]site.Amendment, error) {
		return s.DraftGroup(by, site.Group{Name: name, Kind: kind}, add, remove, s.dir.byID)
	}
	if len(remove) > 0 {
		err := s.changes.Revoke(ctx, by, func() ([]site.Amendment, error) {
			all, err := draft(remove)
			return slices.DeleteFunc(all, func(a site.Amendment) bool { return a.RemoveMember == nil }), err
		})
		if err != nil || len(add) == 0 {
			return err
		}
	}
	return s.changes.Make(ctx, by, func() ([]site.Amendment, error) { return draft(nil) })
}

// DraftGroup drafts a change of a group as [Service.ChangeGroup] makes it. Accounts may be
// drafts, which account finds. Errors as there, but for Unavailable.
func (s *Service) DraftGroup(by site.Actor, g site.Group, add, remove []site.Member, account func(site.AccountID) (site.Account, bool)) (drafted []site.Amendment, err error) {
	present, err := s.Group(g.Name)
	switch {
	case err == nil:
		g = present
	case g.Kind == "":
		return nil, err
	case len(s.Groups()) >= site.MaxGroups:
		return nil, fault.New(fault.Conflict, fmt.Sprintf("There are %d groups already, as many as there may be", site.MaxGroups))
	default:
		detail := fmt.Sprintf("%s, a group of %s", g.Name, g.Kind)
		drafted = append(drafted, site.Amendment{AddGroup: &site.Group{Name: g.Name, Kind: g.Kind}, Record: change(by, site.KindGroupAdded, site.Account{}, detail)})
	}
	for i, m := range slices.Concat(remove, add) {
		m.Group = g.Name
		a, known := account(m.Account)
		switch {
		case (m.Station == 0) != (g.Kind == site.OfAccounts):
			return nil, fault.New(fault.Invalid, fmt.Sprintf("The group %s is one of %s", g.Name, g.Kind))
		case m.Station == 0 && !known:
			return nil, errNoAccount
		}
		if is := slices.Index(g.Members, m); i < len(remove) && is >= 0 {
			g.Members = slices.Delete(g.Members, is, is+1)
			drafted = append(drafted, site.Amendment{RemoveMember: &m, Record: memberRecord(by, a, m, "removed from")})
		} else if i >= len(remove) && is < 0 {
			g.Members = append(g.Members, m)
			drafted = append(drafted, site.Amendment{AddMember: &m, Record: memberRecord(by, a, m, "added to")})
		}
	}
	return drafted, nil
}

// memberRecord is the record of a change of a member, an account or a station.
func memberRecord(by site.Actor, account site.Account, m site.Member, done string) site.Record {
	rec := change(by, site.KindGroupChanged, account, done+" the group "+string(m.Group))
	rec.Station = m.Station
	return rec
}

// RemoveGroup removes a group with its grants, which end at once, whatever it returns.
// NotFound; Unavailable.
func (s *Service) RemoveGroup(ctx context.Context, by site.Actor, name site.GroupName) error {
	return s.changes.Revoke(ctx, by, func() ([]site.Amendment, error) {
		return removal(s.dir, func(r *rules) map[site.GroupName]site.GroupKind { return r.groups }, name, errNoGroup(name), s.DraftGroupRemoval(by, name))
	})
}

// DraftGroupRemoval drafts the removal of a group with its grants.
func (s *Service) DraftGroupRemoval(by site.Actor, name site.GroupName) site.Amendment {
	return site.Amendment{RemoveGroup: name, Record: change(by, site.KindGroupRemoved, site.Account{}, string(name)+", with its grants")}
}

// hasGroup returns NotFound where there is no group of that name and kind.
func (s *Service) hasGroup(name site.GroupName, kind site.GroupKind) error {
	if s.dir.rules().groups[name] != kind {
		return fault.New(fault.NotFound, fmt.Sprintf("There is no group of %s %s", kind, name))
	}
	return nil
}
