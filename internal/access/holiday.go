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
// than [site.MaxHolidays] or [site.MaxHolidayDates]; then none has changed. Unavailable. Where no
// grant permits more on holidays than on other days, it takes effect at once, whatever it returns.
func (s *Service) AddHolidays(ctx context.Context, by site.Actor, holidays []site.Holiday) (changed []site.Holiday, err error) {
	err = s.changeHolidays(ctx, by, true, func() (drafted []site.Amendment, err error) {
		drafted, err = s.DraftHolidays(by, holidays, false)
		for _, a := range drafted {
			changed = append(changed, *a.AddDates)
		}
		return drafted, err
	})
	return changed, err
}

// changeHolidays makes a change that adds holidays, or with more false removes some: only where no grant permits
// more by that is it a revocation, which is judged while no grant changes.
func (s *Service) changeHolidays(ctx context.Context, by site.Actor, more bool, draft func() ([]site.Amendment, error)) error {
	revokes := false
	err := s.changes.Revoke(ctx, by, func() ([]site.Amendment, error) {
		if revokes = s.dir.rules().withdraws(more); !revokes {
			return nil, nil
		}
		return draft()
	})
	if revokes || err != nil {
		return err
	}
	return s.changes.Make(ctx, by, draft)
}

// DraftHolidays drafts the dates of holidays, each named once: with prune they are all there
// are, else they are added to those that are there. Conflict when there would be more than
// [site.MaxHolidays] or [site.MaxHolidayDates].
func (s *Service) DraftHolidays(by site.Actor, wanted []site.Holiday, prune bool) (drafted []site.Amendment, err error) {
	before := s.dir.rules().holidays
	count := len(before)
	for _, old := range s.Holidays() {
		if prune && !slices.ContainsFunc(wanted, func(h site.Holiday) bool { return h.Name == old.Name }) {
			drafted = append(drafted, s.DraftHolidayRemoval(by, old.Name))
			count--
		}
	}
	for _, h := range wanted {
		old, had := before[h.Name]
		if !had {
			count++
		}
		if !prune {
			h.Dates = site.JoinDates(old.Dates, h.Dates)
		}
		if slices.Equal(h.Dates, old.Dates) {
			continue
		}
		if len(h.Dates) > site.MaxHolidayDates {
			return nil, fault.New(fault.Conflict, fmt.Sprintf("%s would have %d dates: at most %d", h.Name, len(h.Dates), site.MaxHolidayDates))
		}
		a := site.Amendment{AddDates: &h, Record: change(by, site.KindHolidayChanged, site.Account{}, h.Name+": "+h.Text())}
		if prune {
			a.AddDates, a.PutHoliday = nil, &h
		}
		drafted = append(drafted, a)
	}
	if count > site.MaxHolidays {
		return nil, fault.New(fault.Conflict, fmt.Sprintf("There would be %d holidays: at most %d", count, site.MaxHolidays))
	}
	return drafted, nil
}

// RemoveHoliday removes a holiday with all its dates. NotFound; Unavailable. Where no grant
// permits more on other days than on holidays, it takes effect at once, whatever it returns.
func (s *Service) RemoveHoliday(ctx context.Context, by site.Actor, name string) error {
	return s.changeHolidays(ctx, by, false, func() ([]site.Amendment, error) {
		notFound := fault.New(fault.NotFound, fmt.Sprintf("There is no holiday %s", name))
		return removal(s.dir, func(r *rules) map[string]site.Holiday { return r.holidays }, name, notFound, s.DraftHolidayRemoval(by, name))
	})
}

// DraftHolidayRemoval drafts the removal of a holiday.
func (s *Service) DraftHolidayRemoval(by site.Actor, name string) site.Amendment {
	return site.Amendment{RemoveHoliday: name, Record: change(by, site.KindHolidayRemoved, site.Account{}, name)}
}
