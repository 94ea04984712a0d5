package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// terms holds the flags of grant as written.
type terms struct {
	from, until, hours, holidays string
	force                        bool
}

func (a *app) grantCommand() *cobra.Command {
	var flags terms
	cmd := a.remote(&cobra.Command{
		Use:   "grant WHO WHAT",
		Short: "Let an account or a group use a station",
		Long: `Let an account use all locks of a station. WHO is an e-mail address or a group of
accounts, WHAT the number of a station or a group of stations. There is at most one
grant for WHO and WHAT; a second one replaces its terms. An account may use a station
while any grant for it, or for a group that it is in, is valid.

--from and --until take ` + timeHelp + `,
or the time from now (8h, 7d). The grant is valid from --from until just before
--until: "--until 2026-12-31" ends as that day begins. --hours are weekly, in the
time zone of the site. Separate several spans by commas; a span that ends before it
starts runs past midnight, and belongs to the day on which it starts. --holidays are
the hours on the days of "gatehouse holiday list", or "none"; without it they are the
same as on other days.`,
		Example: `  gatehouse grant porter@example.test 1042
  gatehouse grant guest@example.test 1042 --until 7d
  gatehouse grant cleaners "ground floor" --hours "Mon-Fri 18:00-22:00" --holidays none
  gatehouse grant clerk@example.test 1042 --hours "Mon-Fri 08:00-18:00" --holidays 10:00-12:00`,
	}, func(ctx context.Context, gw *client.Client, in arguments) error { return a.grant(ctx, gw, in, flags) })
	cmd.Flags().StringVar(&flags.from, "from", "", "valid from this `TIME`")
	cmd.Flags().StringVar(&flags.until, "until", "", "valid until this `TIME`")
	cmd.Flags().StringVar(&flags.hours, "hours", "", "valid in these weekly `HOURS`, such as \"Mon-Fri 08:00-18:00\"")
	cmd.Flags().StringVar(&flags.holidays, "holidays", "", "valid on holidays in these `HOURS`, or \"none\"")
	cmd.Flags().BoolVar(&flags.force, "force", false, "accept an --until that has passed")
	return cmd
}

func (a *app) grant(ctx context.Context, gw *client.Client, in arguments, flags terms) error {
	terms, err := a.parseTerms(flags)
	if err != nil {
		return err
	}
	before, err := grantsOf(ctx, gw, in)
	if err != nil {
		return err
	}
	granted, err := gw.Grant(ctx, in.who, in.what, terms)
	if err != nil {
		return err
	}
	return a.result(granted, func(w *lines) {
		already, replaced := "", ""
		if !granted.Changed {
			already = " already"
		} else if len(before) > 0 {
			replaced = " This replaces: " + a.termsText(before[0].GrantTerms) + "."
		}
		w.printf("%s may%s use %s: %s.%s", whoText(granted.Grant), already, whatText(granted.Grant), a.termsText(granted.GrantTerms), replaced)
	})
}

func (a *app) parseTerms(flags terms) (adminapi.GrantTerms, error) {
	from, err := a.future("from", flags.from)
	if err != nil {
		return adminapi.GrantTerms{}, err
	}
	until, err := a.future("until", flags.until)
	if err != nil {
		return adminapi.GrantTerms{}, err
	}
	hours, err := site.ParseSchedule(flags.hours)
	if err != nil {
		return adminapi.GrantTerms{}, wrongUsagef("--hours: %w", err)
	}
	holidays, err := site.ParseSchedule(flags.holidays)
	if err != nil {
		return adminapi.GrantTerms{}, wrongUsagef("--holidays: %w", err)
	}
	if !from.IsZero() && !until.IsZero() && !from.Before(until) {
		return adminapi.GrantTerms{}, wrongUsagef("--until must be later than --from")
	}
	if !until.IsZero() && !until.After(a.now()) && !flags.force {
		return adminapi.GrantTerms{}, wrongUsagef("--until %s has passed, so the grant would open nothing; --force grants it anyway", a.local(until))
	}
	return adminapi.GrantTerms{From: site.At(from), Until: site.At(until), Hours: hours, Holidays: holidays}, nil
}

// termsText returns "from … until …, Mon-Fri 08:00-18:00" or "at any time".
func (a *app) termsText(t adminapi.GrantTerms) string {
	var parts []string
	if !t.From.IsZero() {
		parts = append(parts, "from "+a.stamp(t.From))
	}
	if !t.Until.IsZero() {
		parts = append(parts, "until "+a.stamp(t.Until))
	}
	if hours := t.Hours.String(); hours != "" {
		parts = append(parts, hours)
	}
	if hours := t.Holidays.String(); hours != "" {
		parts = append(parts, "on holidays "+hours)
	}
	if len(parts) == 0 {
		return "at any time"
	}
	return strings.Join(parts, ", ")
}

// grantsOf lists the grants of whom and for what is named; "" selects all.
func grantsOf(ctx context.Context, gw *client.Client, in arguments) ([]adminapi.Grant, error) {
	all, err := gw.Grants(ctx)
	grants := []adminapi.Grant{}
	for _, g := range all {
		if (in.who == "" || whoOf(g) == in.who) && (in.what == "" || whatOf(g) == in.what) {
			grants = append(grants, g)
		}
	}
	return grants, err
}

// whoOf and whatOf return for whom and for what a grant is, as an argument names it.
func whoOf(g adminapi.Grant) string { return cmp.Or(string(g.Email), string(g.AccountGroup)) }

func whatOf(g adminapi.Grant) string {
	if g.StationGroup != "" {
		return string(g.StationGroup)
	}
	return g.StationID.String()
}

// whoText and whatText word the same for a sentence.
func whoText(g adminapi.Grant) string {
	if g.AccountGroup != "" {
		return "Group " + string(g.AccountGroup)
	}
	return string(g.Email)
}

func whatText(g adminapi.Grant) string {
	if g.StationGroup != "" {
		return "the stations of " + string(g.StationGroup)
	}
	return "station " + g.StationID.String()
}

func (a *app) ungrantCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "ungrant WHO WHAT", Short: "Withdraw the access of an account or a group to a station"},
		func(ctx context.Context, gw *client.Client, in arguments) error {
			was := grantNamed(in)
			if err := gw.Ungrant(ctx, in.who, in.what); err != nil {
				return err
			}
			ended := removed{Email: was.Email, AccountGroup: was.AccountGroup, StationID: was.StationID, StationGroup: was.StationGroup}
			return a.result(ended, func(w *lines) {
				w.printf("%s may no longer use %s.", whoText(was), whatText(was))
			})
		})
}

// grantNamed returns for whom and for what a grant is that arguments name.
func grantNamed(in arguments) (g adminapi.Grant) {
	if strings.Contains(in.who, "@") {
		g.Email = site.Email(in.who)
	} else {
		g.AccountGroup = site.GroupName(in.who)
	}
	var err error
	if g.StationID, err = site.ParseStationID(in.what); err != nil {
		g.StationGroup = site.GroupName(in.what)
	}
	return g
}

func (a *app) grantsCommand() *cobra.Command {
	var who, what string
	cmd := a.remote(&cobra.Command{Use: "grants", Short: "List the grants"},
		func(ctx context.Context, gw *client.Client, _ arguments) error {
			var in arguments
			var err error
			if who != "" {
				in.who, err = parseWho(who)
			}
			if err == nil && what != "" {
				in.what, err = parseWhat(what)
			}
			if err != nil {
				return wrongUsage(err)
			}
			return show(a, a.grantTable)(grantsOf(ctx, gw, in))
		})
	cmd.Flags().StringVar(&who, "account", "", "only those of `WHO`, an e-mail address or a group")
	cmd.Flags().StringVar(&what, "station", "", "only those for `WHAT`, the number of a station or a group")
	return cmd
}

func (a *app) grantTable(w *lines, grants []adminapi.Grant) {
	if len(grants) == 0 {
		w.printf("There are no such grants; \"gatehouse grant WHO WHAT\" adds one.")
		return
	}
	rows := make([][]string, len(grants))
	for i, g := range grants {
		rows[i] = []string{whoOf(g), whatOf(g), a.termsText(g.GrantTerms)}
	}
	w.table([]string{"WHO", "WHAT", "VALID"}, rows)
}
