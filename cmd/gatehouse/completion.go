package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) completionCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion script of a shell",
		Long:  `Print a script that makes a shell complete the commands and flags of gatehouse.`,
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
