package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/web/adminapi/client"
)

func (a *app) completionCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print what makes a shell complete this command",
		Long: `Print a script that makes a shell complete the commands, flags, accounts and
stations of gatehouse.`,
		Example: `  gatehouse completion bash > /etc/bash_completion.d/gatehouse
  gatehouse completion zsh > "${fpath[1]}/_gatehouse"
  gatehouse completion fish > ~/.config/fish/completions/gatehouse.fish`,
		Args:      takes("bash|zsh|fish"),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: a.does(func(_ context.Context, args []string) error {
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			}
			return wrongUsagef("no completion for %q: bash, zsh or fish", args[0])
		}),
	}
}

// completionTimeout bounds how long a shell waits for words of the gateway.
const completionTimeout = time.Second

// words asks the gateway for what an argument may be.
type words func(ctx context.Context, gw *client.Client) ([]string, error)

// completeArguments completes each argument by its own words; without an answer of
// the gateway there are none.
func (a *app) completeArguments(byPosition ...words) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(byPosition) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		var found []string
		_ = a.call(func(gw *client.Client) (err error) {
			found, err = byPosition[len(args)](ctx, gw)
			return err
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) emails(ctx context.Context, gw *client.Client) ([]string, error) {
	accounts, err := gw.Accounts(ctx)
	out := make([]string, len(accounts))
	for i, acc := range accounts {
		out[i] = string(acc.Email)
	}
	return out, err
}

func (a *app) stationIDs(ctx context.Context, gw *client.Client) ([]string, error) {
	stations, err := gw.Stations(ctx)
	out := make([]string, len(stations))
	for i, s := range stations {
		out[i] = fmt.Sprintf("%s\t%s", s.ID, printable(s.Name))
	}
	return out, err
}
