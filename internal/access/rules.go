package access

import (
	"maps"
	"slices"
	"time"

	"gatehouse/internal/site"
)

// rules are who may use what, and when. They are never changed, only replaced, so that who
// holds them may read them without a lock.
type rules struct {
	groups   map[site.GroupName]site.GroupKind
	members  map[site.Member]bool
	grants   map[site.GrantKey]site.Grant
	holidays map[string]site.Holiday // by name
	calendar *site.Calendar          // of these
}

func newRules(loaded site.Access) *rules {
	r := &rules{
		groups:   make(map[site.GroupName]site.GroupKind),
		members:  make(map[site.Member]bool),
		grants:   make(map[site.GrantKey]site.Grant),
		holidays: make(map[string]site.Holiday),
		calendar: site.NewCalendar(loaded.Holidays),
	}
	for _, g := range loaded.Grants {
		r.grants[g.Key()] = g
	}
	for _, g := range loaded.Groups {
		r.groups[g.Name] = g.Kind
		for _, m := range g.Members {
			r.members[m] = true
		}
	}
	for _, h := range loaded.Holidays {
		r.holidays[h.Name] = h
	}
	return r
}

// with returns the rules after amendments.
func (r *rules) with(amendments []site.Amendment) *rules {
	if len(amendments) == 0 {
		return r
	}
	next := &rules{maps.Clone(r.groups), maps.Clone(r.members), maps.Clone(r.grants), maps.Clone(r.holidays), r.calendar}
	for _, a := range amendments {
		next.amend(a)
	}
	if slices.ContainsFunc(amendments, func(a site.Amendment) bool { return a.PutHoliday != nil || a.AddDates != nil || a.RemoveHoliday != "" }) {
		next.calendar = site.NewCalendar(slices.Collect(maps.Values(next.holidays)))
	}
	return next
}

// amend changes rules that no other goroutine has yet.
func (r *rules) amend(a site.Amendment) {
	switch {
	case a.PutGrant != nil:
		r.grants[a.PutGrant.Key()] = *a.PutGrant
	case a.NarrowGrant != nil:
		if g, there := r.grants[a.NarrowGrant.Key()]; there {
			g.Terms = g.Meet(a.NarrowGrant.Terms)
			r.grants[g.Key()] = g
		}
	case a.RemoveGrant != nil:
		delete(r.grants, *a.RemoveGrant)
	case a.AddGroup != nil:
		r.groups[a.AddGroup.Name] = a.AddGroup.Kind
	case a.AddMember != nil:
		if r.groups[a.AddMember.Group] != "" { // it may have been removed while this was pending
			r.members[*a.AddMember] = true
		}
	case a.RemoveMember != nil:
		delete(r.members, *a.RemoveMember)
	case a.PutHoliday != nil:
		r.holidays[a.PutHoliday.Name] = *a.PutHoliday
	case a.AddDates != nil:
		h := *a.AddDates
		h.Dates = site.JoinDates(r.holidays[h.Name].Dates, h.Dates)
		r.holidays[h.Name] = h
	case a.RemoveHoliday != "":
		delete(r.holidays, a.RemoveHoliday)
	case a.RemoveGroup != "":
		delete(r.groups, a.RemoveGroup)
		r.drop(
			func(k site.GrantKey) bool { return k.AccountGroup == a.RemoveGroup || k.StationGroup == a.RemoveGroup },
			func(m site.Member) bool { return m.Group == a.RemoveGroup })
	case a.RemoveAccount != "":
		r.drop(
			func(k site.GrantKey) bool { return k.Account == a.RemoveAccount },
			func(m site.Member) bool { return m.Account == a.RemoveAccount })
	case a.RemoveStation != 0:
		r.drop(
			func(k site.GrantKey) bool { return k.Station == a.RemoveStation },
			func(m site.Member) bool { return m.Station == a.RemoveStation })
	}
}

// drop drops the grants and members of what is removed.
func (r *rules) drop(grants func(site.GrantKey) bool, members func(site.Member) bool) {
	maps.DeleteFunc(r.grants, func(k site.GrantKey, _ site.Grant) bool { return grants(k) })
	maps.DeleteFunc(r.members, func(m site.Member, _ bool) bool { return members(m) })
}

// permit reports whether an account may use a station: by a grant of its own, or by one of a
// group that it is in.
func (r *rules) permit(account site.AccountID, station site.StationID, now time.Time, zone *time.Location) bool {
	permitted := false
	r.each(account, station, func(g site.Grant) bool {
		permitted = g.Covers(now, zone, r.calendar)
		return !permitted
	})
	return permitted
}

// withdraws reports whether more holidays, or fewer, permit nothing that is not permitted
// without.
func (r *rules) withdraws(more bool) bool {
	for _, g := range r.grants {
		before, after := g.Holidays, g.Hours
		if more {
			before, after = after, before
		}
		if !g.Holidays.IsZero() && !after.Within(before) {
			return false
		}
	}
	return true
}

// each calls do with the grants of an account and its groups for a station and its groups,
// until do returns false.
func (r *rules) each(account site.AccountID, station site.StationID, do func(site.Grant) bool) {
	if !r.eachOf(site.GrantKey{Account: account}, station, do) {
		return
	}
	for name := range r.groups {
		if r.members[site.Member{Group: name, Account: account}] && !r.eachOf(site.GrantKey{AccountGroup: name}, station, do) {
			return
		}
	}
}

// eachOf calls do with the grants for whom a key names, and reports whether do wants more.
func (r *rules) eachOf(key site.GrantKey, station site.StationID, do func(site.Grant) bool) bool {
	key.Station = station
	if grant, there := r.grants[key]; there && !do(grant) {
		return false
	}
	key.Station = 0
	for name := range r.groups {
		if !r.members[site.Member{Group: name, Station: station}] {
			continue
		}
		key.StationGroup = name
		if grant, there := r.grants[key]; there && !do(grant) {
			return false
		}
	}
	return true
}

// stations returns the stations for which an account has a grant, whether it holds or not,
// in order.
func (r *rules) stations(account site.AccountID) []site.StationID {
	some, groups := make(map[site.StationID]bool), make(map[site.GroupName]bool)
	for k := range r.grants {
		if k.Account != account && !r.members[site.Member{Group: k.AccountGroup, Account: account}] {
			continue
		}
		if k.Station != 0 {
			some[k.Station] = true
		}
		groups[k.StationGroup] = true
	}
	for m := range r.members {
		if m.Station != 0 && groups[m.Group] {
			some[m.Station] = true
		}
	}
	return slices.Sorted(maps.Keys(some))
}
