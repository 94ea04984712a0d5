package main

import (
	"context"

	"github.com/spf13/cobra"

	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) sessionsCommand() *cobra.Command {
	cmd := group("sessions", "End the sessions of everybody", `Who may do what is not changed: accounts, passwords and grants stay. The sessions of one
account are those of "gatehouse account".`)
	cmd.AddCommand(a.remote(&cobra.Command{
		Use:   "end-all",
		Short: "End every session and integration token, and make a new key for access tokens",
		Long: `End every session of everybody, remove every integration token, and make a new key for
access tokens. For when tokens or a copy of the data may have been stolen. It takes
effect with the next request. People log in again; integrations need new tokens.
Passwords stay: change those that may be known too.`,
	}, func(ctx context.Context, gw *client.Client, _ arguments) error {
		return show(a, func(w *lines, ended adminapi.AllEnded) {
			w.printf("%s and %s ended. Access tokens have a new key.", plural(ended.Sessions, "session"), plural(ended.Tokens, "integration token"))
		})(gw.EndAllSessions(ctx))
	}))
	return cmd
}
