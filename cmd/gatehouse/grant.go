package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// terms holds the flags of grant as written.
type terms struct {
	from, until, hours string
	force              bool
}

func (a *app) grantCommand() *cobra.Command {
	var flags terms
	cmd := a.remote(&cobra.Command{
		Use:   "grant EMAIL N",
		Short: "Let an account use a station",
		Long: `Let an account use all locks of station N. An account has at most one grant for a
station; a second one replaces its terms.

--from and --until take ` + timeHelp + `,
or the time from now (8h, 7d). The grant is valid from --from until just before
--until: "--until 2026-12-31" ends as that day begins. --hours are weekly, in the
time zone of the site. Separate several spans by commas; a span that ends before it
starts runs past midnight.`,
		Example: `  gatehouse grant porter@example.test 1042
  gatehouse grant guest@example.test 1042 --until 7d
  gatehouse grant cleaner@example.test 1042 --hours "Mon-Fri 18:00-22:00, Sat 08:00-12:00"`,
	}, func(ctx context.Context, gw *client.Client, in arguments) error { return a.grant(ctx, gw, in, flags) })
	cmd.Flags().StringVar(&flags.from, "from", "", "valid from this `TIME`")
	cmd.Flags().StringVar(&flags.until, "until", "", "valid until this `TIME`")
	cmd.Flags().StringVar(&flags.hours, "hours", "", "valid in these weekly `HOURS`, such as \"Mon-Fri 08:00-18:00\"")
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
	granted, err := gw.Grant(ctx, string(in.email), in.station, terms)
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
		w.printf("%s may%s use station %s: %s.%s", in.email, already, in.station, a.termsText(granted.GrantTerms), replaced)
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
	if !from.IsZero() && !until.IsZero() && !from.Before(until) {
		return adminapi.GrantTerms{}, wrongUsagef("--until must be later than --from")
	}
	if !until.IsZero() && !until.After(a.now()) && !flags.force {
		return adminapi.GrantTerms{}, wrongUsagef("--until %s has passed, so the grant would open nothing; --force grants it anyway", a.local(until))
	}
	return adminapi.GrantTerms{From: site.At(from), Until: site.At(until), Hours: hours}, nil
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
	if len(parts) == 0 {
		return "at any time"
	}
	return strings.Join(parts, ", ")
}

// grantsOf lists the grants of the account and for the station that are named; a zero
// one selects all.
func grantsOf(ctx context.Context, gw *client.Client, in arguments) ([]adminapi.Grant, error) {
	all, err := gw.Grants(ctx)
	grants := []adminapi.Grant{}
	for _, g := range all {
		if (in.email == "" || g.Email == in.email) && (in.station == 0 || g.StationID == in.station) {
			grants = append(grants, g)
		}
	}
	return grants, err
}

func (a *app) ungrantCommand() *cobra.Command {
	return a.remote(&cobra.Command{Use: "ungrant EMAIL N", Short: "Withdraw an account's access to a station"},
		func(ctx context.Context, gw *client.Client, in arguments) error {
			if err := gw.Ungrant(ctx, string(in.email), in.station); err != nil {
				return err
			}
			return a.result(removed{Email: in.email, StationID: in.station}, func(w *lines) {
				w.printf("%s may no longer use station %s.", in.email, in.station)
			})
		})
}

func (a *app) grantsCommand() *cobra.Command {
	var email, station string
	cmd := a.remote(&cobra.Command{Use: "grants", Short: "List the grants"},
		func(ctx context.Context, gw *client.Client, _ arguments) error {
			var in arguments
			var err error
			if email != "" {
				in.email, err = site.ParseEmail(email)
			}
			if err == nil && station != "" {
				in.station, err = site.ParseStationID(station)
			}
			if err != nil {
				return wrongUsage(err)
			}
			return show(a, a.grantTable)(grantsOf(ctx, gw, in))
		})
	cmd.Flags().StringVar(&email, "account", "", "only those of the account `EMAIL`")
	cmd.Flags().StringVar(&station, "station", "", "only those for station `N`")
	return cmd
}

func (a *app) grantTable(w *lines, grants []adminapi.Grant) {
	if len(grants) == 0 {
		w.printf("There are no such grants; \"gatehouse grant EMAIL N\" adds one.")
		return
	}
	rows := make([][]string, len(grants))
	for i, g := range grants {
		rows[i] = []string{string(g.Email), g.StationID.String(), a.termsText(g.GrantTerms)}
	}
	w.table([]string{"EMAIL", "STATION", "VALID"}, rows)
}
