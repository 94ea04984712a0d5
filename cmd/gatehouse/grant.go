package main

import (
	"cmp"
	"context"

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
	granted, err := gw.Grant(ctx, in.who.String(), in.what.String(), terms)
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
		w.printf("%s may%s use %s: %s.%s", whoText(in.who), already, whatText(in.what), a.termsText(granted.GrantTerms), replaced)
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
	return cmp.Or(t.Text(a.local), "at any time")
}

// grantsOf lists the grants of whom and for what is named; "" selects all.
func grantsOf(ctx context.Context, gw *client.Client, in arguments) ([]adminapi.Grant, error) {
	all, err := gw.Grants(ctx)
	grants := []adminapi.Grant{}
	for _, g := range all {
		if (in.who == (site.Ref{}) || g.Who() == in.who) && (in.what == (site.Ref{}) || g.What() == in.what) {
			grants = append(grants, g)
		}
	}
	return grants, err
}

// whoText and whatText word for whom and for what a grant is.
func whoText(who site.Ref) string {
	if who.Group != "" {
		return "Group " + string(who.Group)
	}
	return string(who.Email)
}

func whatText(what site.Ref) string {
	if what.Group != "" {
		return "the stations of " + string(what.Group)
	}
	return "station " + what.Station.String()
}

func (a *app) ungrantCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "ungrant WHO WHAT", Short: "Withdraw the access of an account or a group to a station"},
		func(ctx context.Context, gw *client.Client, in arguments) error {
			ended := removed{Email: in.who.Email, AccountGroup: in.who.Group, StationID: in.what.Station, StationGroup: in.what.Group}
			return a.gone(ended, gw.Ungrant(ctx, in.who.String(), in.what.String()), "%s may no longer use %s.", whoText(in.who), whatText(in.what))
		})
}

func (a *app) grantsCommand() *cobra.Command {
	var who, what string
	cmd := a.remote(&cobra.Command{Use: "grants", Short: "List the grants"},
		func(ctx context.Context, gw *client.Client, _ arguments) error {
			var in arguments
			var err error
			if who != "" {
				in.who, err = site.ParseWho(who)
			}
			if err == nil && what != "" {
				in.what, err = site.ParseWhat(what)
			}
			if err != nil {
				return wrongUsage(err)
			}
			return show(a, listing("There are no such grants; \"gatehouse grant WHO WHAT\" adds one.", []string{"WHO", "WHAT", "VALID"}, func(g adminapi.Grant) []string {
				return []string{g.Who().String(), g.What().String(), a.termsText(g.GrantTerms)}
			}))(grantsOf(ctx, gw, in))
		})
	cmd.Flags().StringVar(&who, "account", "", "only those of `WHO`, an e-mail address or a group")
	cmd.Flags().StringVar(&what, "station", "", "only those for `WHAT`, the number of a station or a group")
	return cmd
}
