package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) applyCommand() *cobra.Command {
	var options sitefile.Options
	cmd := a.command(&cobra.Command{
		Use:   "apply SITE.toml",
		Short: "Make accounts, stations and grants match a site file",
		Long: `Make the accounts, stations, groups, holidays and grants of the gateway match a site
file. Applying the same file again changes nothing. What the file does not name
stays, unless --prune is given: then what will be removed is printed first. A file
that names nothing, or no administrator, needs --force with it. Secrets that the
file leaves open are generated for what is added, and printed this once.`,
		Example: `  gatehouse apply site.toml --dry-run
  gatehouse apply site.toml --json > issued.json`,
	}, func(ctx context.Context, args []string) error { return a.apply(ctx, args[0], options) })
	cmd.Flags().BoolVar(&options.DryRun, "dry-run", false, "only say what would change")
	cmd.Flags().BoolVar(&options.Prune, "prune", false, "remove what the file does not name: accounts, stations, groups and members of them, holidays, grants")
	cmd.Flags().BoolVar(&options.Force, "force", false, "prune also where that removes everything, or the last administrator")
	return cmd
}

func (a *app) apply(ctx context.Context, path string, options sitefile.Options) error {
	s, err := sitefile.ReadFile(path)
	if err != nil {
		return err
	}
	return a.call(func(gw *client.Client) error {
		if options.Prune && !options.DryRun && !a.json {
			if err := a.showRemovals(ctx, gw, s, options); err != nil {
				return err
			}
		}
		done := a.working("Applying " + printable(path))
		applied, err := gw.Apply(ctx, s, options)
		done()
		if err != nil {
			return err
		}
		if options.DryRun { // what it generated is not in force
			applied.Accounts, applied.Stations = []sitefile.IssuedAccount{}, []sitefile.IssuedStation{}
		}
		return a.result(applied, func(w *lines) { printApplied(w, applied, options.DryRun) })
	})
}

// showRemovals prints what applying the site with --prune is about to remove.
func (a *app) showRemovals(ctx context.Context, gw *client.Client, s sitefile.Site, options sitefile.Options) error {
	options.DryRun = true
	would, err := gw.Apply(ctx, s, options)
	if err != nil {
		return err
	}
	removals := slices.DeleteFunc(would.Changes, func(c sitefile.Change) bool {
		return !strings.HasSuffix(c.Kind, "-removed") && c.Kind != string(site.KindUngranted) && !strings.Contains(c.What, ", removed from the group ")
	})
	if len(removals) == 0 {
		return nil
	}
	return a.result(nil, func(w *lines) {
		w.printf("These will be removed:")
		changeTable(w, removals)
	})
}

func changeTable(w *lines, changes []sitefile.Change) {
	rows := make([][]string, len(changes))
	for i, c := range changes {
		rows[i] = []string{c.Kind, c.What}
	}
	w.table(rows)
	w.printf("")
}

func printApplied(w *lines, applied sitefile.Result, dryRun bool) {
	if len(applied.Changes) == 0 {
		w.printf("The gateway matches the file; nothing to change.")
		return
	}
	changeTable(w, applied.Changes)
	if dryRun {
		w.printf("%s to make; nothing was changed.", plural(len(applied.Changes), "change"))
		return
	}
	w.printf("%s made.", plural(len(applied.Changes), "change"))
	printIssued(w, applied)
}

// printIssued shows the secrets that were generated.
func printIssued(w *lines, applied sitefile.Result) {
	var rows [][]string
	for _, acc := range applied.Accounts {
		if acc.Password != "" {
			rows = append(rows, []string{string(acc.Email), acc.Password, ""})
		}
	}
	for _, s := range applied.Stations {
		rows = append(rows, []string{s.MQTT.Username, s.MQTT.Password, s.StationToken})
	}
	if len(rows) > 0 {
		w.printf("")
		w.table(append([][]string{{"ACCOUNT OR MQTT USERNAME", "PASSWORD", "STATION TOKEN"}}, rows...))
		w.printf("")
		w.printf("These secrets are not shown again.")
	}
}
