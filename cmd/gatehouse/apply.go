package main

import (
	"context"

	"github.com/spf13/cobra"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) applyCommand() *cobra.Command {
	var options sitefile.Options
	cmd := &cobra.Command{
		Use:   "apply SITE.toml",
		Short: "Make accounts, stations and grants match a site file",
		Long: `Make the accounts, stations and grants of the gateway match a site file. Applying
the same file again changes nothing. What the file does not name stays, unless
--prune is given. Secrets that the file leaves open are generated for what is
made, and printed this once.`,
		Example: `  gatehouse apply site.toml --dry-run
  gatehouse apply site.toml --json > issued.json`,
		Args: takes("SITE.toml"),
		RunE: a.does(func(ctx context.Context, args []string) error {
			return a.apply(ctx, args[0], options)
		}),
	}
	cmd.Flags().BoolVar(&options.DryRun, "dry-run", false, "only say what would change")
	cmd.Flags().BoolVar(&options.Prune, "prune", false, "remove the accounts, stations and grants that the file does not name")
	return cmd
}

func (a *app) apply(ctx context.Context, path string, options sitefile.Options) error {
	s, err := sitefile.ParseFile(path)
	if err != nil {
		return err
	}
	return a.call(func(gw *client.Client) error {
		applied, err := gw.Apply(ctx, s, options)
		if err != nil {
			return err
		}
		applied.Changes, applied.Accounts, applied.Stations = list(applied.Changes), list(applied.Accounts), list(applied.Stations)
		return a.result(applied, func(w *lines) { printApplied(w, applied, options.DryRun) })
	})
}

func printApplied(w *lines, applied adminapi.Applied, dryRun bool) {
	if len(applied.Changes) == 0 {
		w.printf("The gateway matches the file; nothing to change.")
		return
	}
	rows := make([][2]string, len(applied.Changes))
	for i, c := range applied.Changes {
		rows[i] = [2]string{c.Kind, c.What}
	}
	w.pairs(rows)
	w.printf("")
	if dryRun {
		w.printf("%s to make; nothing was changed.", plural(len(applied.Changes), "change"))
		return
	}
	w.printf("%s made.", plural(len(applied.Changes), "change"))
	printIssued(w, applied)
}

// printIssued shows the secrets that were generated.
func printIssued(w *lines, applied adminapi.Applied) {
	var accounts, stations [][]string
	for _, acc := range applied.Accounts {
		if acc.Password != "" {
			accounts = append(accounts, []string{string(acc.Email), acc.Password})
		}
	}
	for _, s := range applied.Stations {
		stations = append(stations, []string{s.StationID.String(), s.StationToken, s.MQTT.Username, s.MQTT.Password})
	}
	if len(accounts) > 0 {
		w.printf("")
		w.table([]string{"ACCOUNT", "PASSWORD"}, accounts)
	}
	if len(stations) > 0 {
		w.printf("")
		w.table([]string{"STATION", "STATION TOKEN", "MQTT USERNAME", "MQTT PASSWORD"}, stations)
	}
	if len(accounts)+len(stations) > 0 {
		w.printf("")
		w.printf("These secrets are not shown again.")
	}
}
