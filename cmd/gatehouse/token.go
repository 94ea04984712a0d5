package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := group("token", "Manage the tokens of integrations", `A token lets a dashboard, a script or another product use this gateway without a
person's password. It is sent as "Authorization: Bearer TOKEN" to /v1 and /local/v1,
and never administers the gateway.`)
	cmd.AddCommand(a.tokenAdd(), a.tokenList(), a.tokenRemove())
	return cmd
}

// scopeFlags holds the flags of token add as written.
type scopeFlags struct {
	read          bool
	unlock, until string
}

func (a *app) tokenAdd() *cobra.Command {
	var flags scopeFlags
	cmd := a.remote(&cobra.Command{
		Use:   "add NAME",
		Short: "Add a token, and print it this once",
		Long: `Add a token and print it this once; the gateway stores only a hash of it.

--read lets it see every station, --unlock see and unlock the stations that are named,
or with "*" every station, also those that are added later.

--until takes ` + timeHelp + `,
or the time from now (8h, 7d).`,
		Example: `  gatehouse token add "Lobby display" --read
  gatehouse token add Reception --unlock 1042,1043 --until 2027-01-01
  gatehouse token add Automation --unlock "*"`,
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		wanted, err := a.newToken(in.name, flags)
		if err != nil {
			return err
		}
		return show(a, a.printToken)(gw.AddToken(ctx, wanted))
	})
	cmd.Flags().BoolVar(&flags.read, "read", false, "see every station")
	cmd.Flags().StringVar(&flags.unlock, "unlock", "", "see and unlock the `STATIONS`, such as 1042,1043, or \"*\" for all")
	cmd.Flags().StringVar(&flags.until, "until", "", "valid until this `TIME`")
	return cmd
}

func (a *app) newToken(name string, flags scopeFlags) (adminapi.NewToken, error) {
	if !site.ValidTokenName(name) {
		return adminapi.NewToken{}, wrongUsagef("%q is no name for a token: write up to %d characters, the first a letter or a digit", name, site.MaxTokenName)
	}
	var words []string
	if flags.read {
		words = append(words, "read")
	}
	if flags.unlock != "" {
		words = append(words, "unlock:"+strings.ReplaceAll(flags.unlock, " ", ""))
	}
	if len(words) == 0 {
		return adminapi.NewToken{}, wrongUsagef("say what the token may do: --read, --unlock STATIONS, or both")
	}
	scope, err := site.ParseScope(words)
	if err != nil {
		return adminapi.NewToken{}, wrongUsagef("--unlock: %w", err)
	}
	until, err := a.future("until", flags.until)
	return adminapi.NewToken{Name: name, Scopes: scope, Until: site.At(until)}, err
}

func (a *app) printToken(w *lines, issued adminapi.IssuedToken) {
	w.printf("Token %q is added: %s.", issued.Name, a.scopeText(issued.Token))
	w.printf("%s", issued.Text)
	w.printf("It is not shown again. Send it as \"Authorization: Bearer …\" to /v1 and /local/v1.")
}

// scopeText returns "read unlock:1042, until …".
func (a *app) scopeText(t adminapi.Token) string {
	text := strings.Join(t.Scope.Words(), " ")
	if text == "" { // its stations have been removed
		text = "nothing"
	}
	if !t.Until.IsZero() {
		text += ", until " + a.stamp(t.Until)
	}
	return text
}

func (a *app) tokenList() *cobra.Command {
	return a.remote(&cobra.Command{Use: "list", Short: "List the tokens"}, shown(a, (*client.Client).Tokens,
		listing("There are no tokens; \"gatehouse token add NAME --read\" adds one.", []string{"NAME", "MAY", "ADDED", "LAST USED"}, func(t adminapi.Token) []string {
			return []string{t.Name, a.scopeText(t), a.stamp(t.Created), a.stamp(t.Used)}
		})))
}

func (a *app) tokenRemove() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a token",
		Long:  "Remove a token, without asking. Its next request is refused, and its streams end.",
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		return a.gone(removed{Name: in.name}, gw.RemoveToken(ctx, in.name), "Token %q is removed.", in.name)
	})
}
