package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"gatehouse/internal/setup/calendar"
	"gatehouse/internal/setup/tomlfile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) holidayCommand() *cobra.Command {
	cmd := group("holiday", "Manage the holidays of the site",
		`Holidays are days, in the time zone of the site, on which other hours may hold: see
"gatehouse grant --holidays". A grant that does not mention holidays is the same on them.`)
	none := "There are no holidays; \"gatehouse holiday add HOLIDAY DATE...\" adds one."
	cmd.AddCommand(
		a.holidayAdd(), a.holidayImport(),
		a.remote(&cobra.Command{Use: "list", Short: "List the holidays"}, shown(a, (*client.Client).Holidays, holidayTable(none))),
		a.holidayRemove(),
	)
	return cmd
}

func (a *app) holidayAdd() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "add HOLIDAY DATE...",
		Short: "Add dates to a holiday",
		Long: `Add dates to the holiday of that name, which is created if it is not there. A DATE is a
day (2026-12-24), several days (2026-12-24..2027-01-03), or without a year the same
days of every year (12-25, 12-24..01-06).`,
		Example: `  gatehouse holiday add Christmas 12-25 12-26
  gatehouse holiday add "Works holiday" 2026-08-03..2026-08-21`,
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		h := adminapi.NewHolidays{Name: in.texts[0]}
		for _, text := range in.texts[1:] {
			dates, err := site.ParseDates(text)
			if err != nil {
				return wrongUsage(err)
			}
			h.Dates = append(h.Dates, dates)
		}
		return show(a, holidayTable(unchanged))(gw.AddHolidays(ctx, h))
	})
}

// holidayTable returns what writes a table of holidays; none is the sentence where there
// are none.
func holidayTable(none string) func(*lines, []site.Holiday) {
	return listing(none, []string{"HOLIDAY", "DATES"}, func(h site.Holiday) []string { return []string{h.Name, h.Text()} })
}

// unchanged is what adding holidays says that are there.
const unchanged = "These holidays are there already."

func (a *app) holidayImport() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "import FILE.ics",
		Short: "Add the holidays of a calendar file",
		Long: `Add the events of an iCalendar file, as calendar programs export them, to the holidays:
each by its name, on all the days that it touches. What is there already stays. A file
with an event that cannot be read is refused as a whole.`,
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		text, err := tomlfile.Read(in.texts[0], calendar.MaxSize)
		if err != nil {
			return fmt.Errorf("reading the calendar: %w", err)
		}
		return show(a, holidayTable(unchanged))(gw.AddHolidays(ctx, adminapi.NewHolidays{ICS: string(text)}))
	})
}

func (a *app) holidayRemove() *cobra.Command {
	return a.remote(&cobra.Command{Use: "remove HOLIDAY", Short: "Remove a holiday with all its dates"},
		func(ctx context.Context, gw *client.Client, in arguments) error {
			return a.gone(removed{Name: in.texts[0]}, gw.RemoveHoliday(ctx, in.texts[0]), "Holiday %s is removed.", in.texts[0])
		})
}
