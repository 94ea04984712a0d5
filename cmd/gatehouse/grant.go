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
type terms struct{ from, until, hours string }

func (a *app) grantCommand() *cobra.Command {
	var flags terms
	cmd := &cobra.Command{
		Use:   "grant EMAIL N",
		Short: "Let an account use a station",
		Long: `Let an account use all locks of station N. An account has at most one grant for a
station: granting again replaces its terms.

--from and --until take ` + timeHelp + `,
or in what time (8h, 7d). The grant holds from the one until just before the other,
so that "--until 2026-12-31" ends as that day begins. --hours are weekly,
in the time zone of the gateway; several spans are parted by commas, and one that
ends before it starts runs past midnight.`,
		Example: `  gatehouse grant porter@example.test 1042
  gatehouse grant guest@example.test 1042 --until 7d
  gatehouse grant cleaner@example.test 1042 --hours "Mon-Fri 18:00-22:00, Sat 08:00-12:00"`,
		Args:              takes("EMAIL", "N"),
		ValidArgsFunction: a.completeArguments(a.emails, a.stationIDs),
		RunE: a.does(func(ctx context.Context, args []string) error {
			return a.grant(ctx, args, flags)
		}),
	}
	cmd.Flags().StringVar(&flags.from, "from", "", "from when on (`TIME`)")
	cmd.Flags().StringVar(&flags.until, "until", "", "until when (`TIME`)")
	cmd.Flags().StringVar(&flags.hours, "hours", "", "the weekly `HOURS`, such as \"Mon-Fri 08:00-18:00\"")
	return cmd
}

func (a *app) grant(ctx context.Context, args []string, flags terms) error {
	email, id, err := grantArguments(args)
	if err != nil {
		return err
	}
	terms, err := a.parseTerms(flags)
	if err != nil {
		return err
	}
	return a.call(func(gw *client.Client) error {
		granted, err := gw.Grant(ctx, string(email), id, terms)
		if err != nil {
			return err
		}
		return a.result(granted, func(w *lines) {
			already := ""
			if !granted.Changed {
				already = " already"
			}
			w.printf("%s may%s use station %s: %s.", email, already, id, a.termsText(granted.GrantTerms))
		})
	})
}

func grantArguments(args []string) (site.Email, site.StationID, error) {
	email, err := site.ParseEmail(args[0])
	if err != nil {
		return "", 0, wrongUsage(err)
	}
	id, err := site.ParseStationID(args[1])
	return email, id, wrongUsage(err)
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
	return adminapi.GrantTerms{From: site.At(from), Until: site.At(until), Hours: hours}, nil
}

// termsText gives "from … until …, Mon-Fri 08:00-18:00" or "at any time".
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

func (a *app) ungrantCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "ungrant EMAIL N",
		Short:             "Take the leave to use a station from an account",
		Args:              takes("EMAIL", "N"),
		ValidArgsFunction: a.completeArguments(a.emails, a.stationIDs),
		RunE: a.does(func(ctx context.Context, args []string) error {
			email, id, err := grantArguments(args)
			if err != nil {
				return err
			}
			return a.call(func(gw *client.Client) error {
				if err := gw.Ungrant(ctx, string(email), id); err != nil {
					return err
				}
				removed := struct {
					Email     site.Email     `json:"email"`
					StationID site.StationID `json:"stationId"`
				}{email, id}
				return a.result(removed, func(w *lines) { w.printf("%s may no longer use station %s.", email, id) })
			})
		}),
	}
}

func (a *app) grantsCommand() *cobra.Command {
	var email, stationID string
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "List the grants",
		Args:  takes(),
		RunE: a.does(func(ctx context.Context, _ []string) error {
			return a.listGrants(ctx, email, stationID)
		}),
	}
	cmd.Flags().StringVar(&email, "account", "", "only those of the account `EMAIL`")
	cmd.Flags().StringVar(&stationID, "station", "", "only those for station `N`")
	return cmd
}

func (a *app) listGrants(ctx context.Context, email, stationID string) error {
	selects, err := grantFilter(email, stationID)
	if err != nil {
		return err
	}
	return a.call(func(gw *client.Client) error {
		all, err := gw.Grants(ctx)
		if err != nil {
			return err
		}
		grants := []adminapi.Grant{}
		rows := [][]string{}
		for _, g := range all {
			if selects(g) {
				grants = append(grants, g)
				rows = append(rows, []string{string(g.Email), g.StationID.String(), a.termsText(g.GrantTerms)})
			}
		}
		return a.result(grants, func(w *lines) {
			if len(rows) == 0 {
				w.printf("There are no such grants; \"gatehouse grant EMAIL N\" makes one.")
				return
			}
			w.table([]string{"EMAIL", "STATION", "WHEN"}, rows)
		})
	})
}

// grantFilter reads the flags of grants; an empty one selects all.
func grantFilter(email, stationID string) (func(adminapi.Grant) bool, error) {
	var account site.Email
	var id site.StationID
	var err error
	if email != "" {
		if account, err = site.ParseEmail(email); err != nil {
			return nil, wrongUsage(err)
		}
	}
	if stationID != "" {
		if id, err = site.ParseStationID(stationID); err != nil {
			return nil, wrongUsage(err)
		}
	}
	return func(g adminapi.Grant) bool {
		return (account == "" || g.Email == account) && (id == 0 || g.StationID == id)
	}, nil
}
