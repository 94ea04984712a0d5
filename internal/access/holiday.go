package access

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// Holidays lists the holidays by name.
func (s *Service) Holidays() []site.Holiday {
	return slices.SortedFunc(maps.Values(s.dir.rules().holidays), func(a, b site.Holiday) int { return strings.Compare(a.Name, b.Name) })
}

// AddHolidays adds dates to the holidays of those names, and the holidays that are not
// there; it returns those that changed, as they are then. Conflict when there would be more
// than [site.MaxHolidays] or [site.MaxHolidayDates]; then none has changed. Unavailable; what
// the new dates revoke is gone all the same.
func (s *Service) AddHolidays(ctx context.Context, by site.Actor, holidays []site.Holiday) (changed []site.Holiday, err error) {
	err = s.changes.Revoke(ctx, func() (drafted []site.Amendment, err error) {
		if changed, err = s.JoinHolidays(holidays); err != nil {
			return nil, err
		}
		for _, h := range changed {
			drafted = append(drafted, s.DraftHoliday(by, h))
		}
		return drafted, nil
	})
	return changed, err
}

// JoinHolidays returns what AddHolidays would change. Conflict as there.
func (s *Service) JoinHolidays(add []site.Holiday) (changed []site.Holiday, err error) {
	all := make(map[string]site.Holiday)
	for _, h := range s.Holidays() {
		all[h.Name] = h
	}
	names := make(map[string]bool)
	for _, h := range add {
		before := all[h.Name].Dates
		dates := site.JoinDates(before, h.Dates)
		if len(dates) > site.MaxHolidayDates {
			return nil, fault.New(fault.Conflict, fmt.Sprintf("%s would have %d dates: at most %d", h.Name, len(dates), site.MaxHolidayDates))
		}
		if len(dates) > len(before) {
			all[h.Name], names[h.Name] = site.Holiday{Name: h.Name, Dates: dates}, true
		}
	}
	if len(all) > site.MaxHolidays {
		return nil, fault.New(fault.Conflict, fmt.Sprintf("There would be %d holidays: at most %d", len(all), site.MaxHolidays))
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		changed = append(changed, all[name])
	}
	return changed, nil
}

// RemoveHoliday removes a holiday with all its dates; hours that hold on holidays only end
// at once, whatever it returns. NotFound; Unavailable.
func (s *Service) RemoveHoliday(ctx context.Context, by site.Actor, name string) error {
	return s.changes.Revoke(ctx, func() ([]site.Amendment, error) {
		notFound := fault.New(fault.NotFound, fmt.Sprintf("There is no holiday %s", name))
		return removal(s.dir, func(r *rules) map[string]site.Holiday { return r.holidays }, name, notFound, s.DraftHolidayRemoval(by, name))
	})
}

// DraftHoliday drafts a holiday in place of the one of that name.
func (s *Service) DraftHoliday(by site.Actor, h site.Holiday) site.Amendment {
	return site.Amendment{PutHoliday: &h, Record: change(by, site.KindHolidayChanged, site.Account{}, h.Name+": "+h.Text())}
}

// DraftHolidayRemoval drafts the removal of a holiday.
func (s *Service) DraftHolidayRemoval(by site.Actor, name string) site.Amendment {
	return site.Amendment{RemoveHoliday: name, Record: change(by, site.KindHolidayRemoved, site.Account{}, name)}
}
