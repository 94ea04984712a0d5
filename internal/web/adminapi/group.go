package adminapi

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"gatehouse/internal/setup/calendar"
	"gatehouse/internal/site"
)

func (a *API) groups(*request) (any, error) {
	groups := []Group{}
	for _, g := range a.Access.Groups() {
		groups = append(groups, a.groupOf(g))
	}
	return map[string][]Group{"groups": groups}, nil
}

func (a *API) groupOf(g site.Group) Group {
	out := Group{Name: g.Name}
	if g.Kind == site.OfStations {
		out.Stations = []site.StationID{}
	} else {
		out.Accounts = []site.Email{}
	}
	for _, m := range g.Members {
		if m.Station != 0 {
			out.Stations = append(out.Stations, m.Station)
		} else if account, ok := a.Access.AccountByID(m.Account); ok { // it may have been removed meanwhile
			out.Accounts = append(out.Accounts, account.Email)
		}
	}
	slices.Sort(out.Accounts)
	return out
}

func (a *API) changeGroup(r *request, in GroupPatch) (any, error) {
	name, err := site.ParseGroupName(r.PathValue("group"))
	if err != nil {
		return nil, invalid(err)
	}
	add, notAdded := a.members(in.Add)
	remove, err := a.members(in.Remove)
	if err = cmp.Or(notAdded, err); err == nil {
		err = a.Access.ChangeGroup(r.Context(), r.Actor, name, in.Add.Kind(), add, remove)
	}
	if err != nil {
		return nil, err
	}
	g, err := a.Access.Group(name)
	return a.groupOf(g), err
}

// members finds the accounts and stations of a request. NotFound where one is not there.
func (a *API) members(in Members) (members []site.Member, err error) {
	for _, ref := range in.Refs() {
		account := site.Account{}
		if ref.Station != 0 {
			_, err = a.enrolled(ref.String())
		} else {
			account, err = a.account(ref.String())
		}
		if err != nil {
			return nil, err
		}
		members = append(members, site.Member{Account: account.ID, Station: ref.Station})
	}
	return members, nil
}

func (a *API) removeGroup(r *request) (any, error) {
	return nil, a.Access.RemoveGroup(r.Context(), r.Actor, site.GroupName(r.PathValue("group")))
}

func (a *API) holidays(*request) (any, error) { return holidaysOf(a.Access.Holidays()), nil }

func holidaysOf(list []site.Holiday) Holidays { return Holidays{append([]site.Holiday{}, list...)} }

func (a *API) addHolidays(r *request, in NewHolidays) (any, error) {
	found, err := in.read(a.Access.Zone())
	if err != nil {
		return nil, invalid(err)
	}
	changed, err := a.Access.AddHolidays(r.Context(), r.Actor, found)
	return holidaysOf(changed), err
}

// read returns the holidays that a request is for.
func (n NewHolidays) read(zone *time.Location) ([]site.Holiday, error) {
	if n.ICS != "" {
		return calendar.Read(n.ICS, zone)
	}
	name, err := site.ParseHolidayName(n.Name)
	if err == nil && len(n.Dates) == 0 {
		err = errors.New(`The holiday needs "dates", such as ["2026-12-24", "12-25"]`) //nolint:staticcheck // a sentence for people
	}
	return []site.Holiday{{Name: name, Dates: n.Dates}}, err
}

func (a *API) removeHoliday(r *request) (any, error) {
	return nil, a.Access.RemoveHoliday(r.Context(), r.Actor, r.PathValue("holiday"))
}
