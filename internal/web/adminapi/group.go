package adminapi

import (
	"slices"

	"gatehouse/internal/fault"
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
	if g.Kind == site.OfStations {
		return Group{g.Name, Members{Stations: append([]site.StationID{}, g.Stations...)}}
	}
	emails := []site.Email{}
	for _, account := range a.Access.Accounts() {
		if slices.Contains(g.Accounts, account.ID) {
			emails = append(emails, account.Email)
		}
	}
	return Group{g.Name, Members{Accounts: emails}}
}

func (a *API) addGroup(r *request, in Group) (any, error) {
	name, err := site.ParseGroupName(string(in.Name))
	if err != nil {
		return nil, fault.New(fault.Invalid, err.Error())
	}
	if (in.Accounts == nil) == (in.Stations == nil) {
		return nil, fault.New(fault.Invalid, `Say of what the group is: "accounts" or "stations"`)
	}
	kind := site.OfAccounts
	if in.Stations != nil {
		kind = site.OfStations
	}
	members, err := a.members(in.Members)
	if err == nil {
		err = a.Access.AddGroup(r.Context(), r.Actor, site.Group{Name: name, Kind: kind}, members)
	}
	if err != nil {
		return nil, err
	}
	return a.shownGroup(name)
}

func (a *API) changeGroup(r *request, in GroupPatch) (any, error) {
	name := site.GroupName(r.PathValue("group"))
	add, err := a.members(in.Add)
	if err != nil {
		return nil, err
	}
	remove, err := a.members(in.Remove)
	if err == nil {
		err = a.Access.ChangeGroup(r.Context(), r.Actor, name, add, remove)
	}
	if err != nil {
		return nil, err
	}
	return a.shownGroup(name)
}

func (a *API) shownGroup(name site.GroupName) (any, error) {
	g, err := a.Access.Group(name)
	return a.groupOf(g), err
}

// members finds the accounts and stations of a request. NotFound where one is not there.
func (a *API) members(in Members) (members []site.Member, err error) {
	for _, email := range in.Accounts {
		account, err := a.account(string(email))
		if err != nil {
			return nil, err
		}
		members = append(members, site.Member{Account: account.ID})
	}
	for _, id := range in.Stations {
		if _, ok := a.Stations.Station(id); !ok {
			return nil, errNotEnrolled(id)
		}
		members = append(members, site.Member{Station: id})
	}
	return members, nil
}

func (a *API) removeGroup(r *request) (any, error) {
	return nil, a.Access.RemoveGroup(r.Context(), r.Actor, site.GroupName(r.PathValue("group")))
}

func (a *API) holidays(*request) (any, error) { return holidaysOf(a.Access.Holidays()), nil }

func holidaysOf(list []site.Holiday) Holidays { return Holidays{append([]site.Holiday{}, list...)} }

func (a *API) addHoliday(r *request, in site.Holiday) (any, error) {
	name, err := site.ParseHolidayName(in.Name)
	if err != nil {
		return nil, fault.New(fault.Invalid, err.Error())
	}
	if len(in.Dates) == 0 {
		return nil, fault.New(fault.Invalid, `The holiday needs "dates", such as ["2026-12-24", "12-25"]`)
	}
	changed, err := a.Access.AddHolidays(r.Context(), r.Actor, []site.Holiday{{Name: name, Dates: in.Dates}})
	return holidaysOf(changed), err
}

func (a *API) importHolidays(r *request, in Import) (any, error) {
	found, err := calendar.Read(in.ICS, a.Access.Zone())
	if err != nil {
		return nil, fault.New(fault.Invalid, err.Error())
	}
	changed, err := a.Access.AddHolidays(r.Context(), r.Actor, found)
	return holidaysOf(changed), err
}

func (a *API) removeHoliday(r *request) (any, error) {
	return nil, a.Access.RemoveHoliday(r.Context(), r.Actor, r.PathValue("holiday"))
}
