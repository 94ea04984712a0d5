package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) accountCommand() *cobra.Command {
	cmd := group("account", "Manage who may log in", "Accounts are people and apps that log in with an e-mail address and a password.\nGrants say which stations an account may open.")
	cmd.AddCommand(
		a.accountAdd(), a.accountList(), a.accountRemove(),
		a.accountPassword(), a.accountSessions(), a.accountRevoke(),
	)
	return cmd
}

func (a *app) accountAdd() *cobra.Command {
	var admin, fromStdin bool
	cmd := a.remote(&cobra.Command{
		Use:   "add EMAIL",
		Short: "Add an account",
		Long: `Add an account. Without --password-stdin a password is generated and printed this
once; the gateway stores only a hash of it.`,
		Example: `  gatehouse account add porter@example.test
  gatehouse account add owner@example.test --admin --password-stdin < password.txt`,
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		password, err := a.newPassword(ctx, fromStdin)
		if err != nil {
			return err
		}
		issued, err := gw.AddAccount(ctx, adminapi.NewAccount{Email: string(in.email), Password: password, Admin: admin})
		if err != nil {
			return err
		}
		return a.result(issued, func(w *lines) {
			w.printf("Account %s is added.", issued.Email)
			printPassword(w, issued)
		})
	})
	cmd.Flags().BoolVar(&admin, "admin", false, "let the account administer the gateway over HTTPS")
	passwordFlag(cmd, &fromStdin)
	return cmd
}

func passwordFlag(cmd *cobra.Command, fromStdin *bool) {
	cmd.Flags().BoolVar(fromStdin, "password-stdin", false, "read the password from the first line of standard input")
}

// printPassword shows a password that was generated.
func printPassword(w *lines, issued adminapi.IssuedAccount) {
	if issued.Password != "" {
		w.printf("Password: %s", issued.Password)
		w.printf("It is not shown again; \"gatehouse account password %s\" generates a new one.", issued.Email)
	}
}

// newPassword reads a password from standard input where it is asked to; else it returns
// "", and the gateway generates one.
func (a *app) newPassword(ctx context.Context, fromStdin bool) (string, error) {
	if !fromStdin {
		return "", nil
	}
	return interruptible(ctx, func() (string, error) { return firstLine("standard input", a.stdin) })
}

func (a *app) accountList() *cobra.Command {
	return a.remote(&cobra.Command{Use: "list", Short: "List the accounts"}, shown(a, (*client.Client).Accounts,
		listing("There are no accounts; \"gatehouse account add EMAIL\" adds one.", []string{"EMAIL", "ADMIN", "ADDED", "ID"}, func(acc adminapi.Account) []string {
			return []string{string(acc.Email), yesNo(acc.Admin), a.stamp(acc.Created), string(acc.ID)}
		})))
}

func (a *app) accountRemove() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "remove EMAIL",
		Short: "Remove an account, its sessions and its grants",
		Long:  "Remove an account with its grants, without asking. Its sessions end at once.",
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		return a.gone(removed{Email: in.email}, gw.RemoveAccount(ctx, string(in.email)), "Account %s, its sessions and its grants are removed.", in.email)
	})
}

func (a *app) accountPassword() *cobra.Command {
	var fromStdin, keep bool
	cmd := a.remote(&cobra.Command{
		Use:   "password EMAIL",
		Short: "Set a new password",
		Long: `Set a new password. Without --password-stdin it is generated and printed this once.
Sessions of the account end at once, unless --keep-sessions is given.`,
	}, func(ctx context.Context, gw *client.Client, in arguments) error {
		password, err := a.newPassword(ctx, fromStdin)
		if err != nil {
			return err
		}
		return show(a, printNewPassword(keep))(gw.SetPassword(ctx, string(in.email), adminapi.NewPassword{Password: password, EndSessions: !keep}))
	})
	passwordFlag(cmd, &fromStdin)
	cmd.Flags().BoolVar(&keep, "keep-sessions", false, "leave the sessions of the account valid")
	return cmd
}

func printNewPassword(keep bool) func(w *lines, changed adminapi.ChangedPassword) {
	return func(w *lines, changed adminapi.ChangedPassword) {
		w.printf("Account %s has a new password.", changed.Email)
		printPassword(w, changed.IssuedAccount)
		if keep {
			w.printf("Its sessions stay valid; \"gatehouse account revoke %s\" ends them.", changed.Email)
		} else {
			w.printf("%s ended.", plural(changed.Ended, "session"))
		}
	}
}

func (a *app) accountSessions() *cobra.Command {
	return a.remote(&cobra.Command{Use: "sessions EMAIL", Short: "List the live sessions of an account"},
		func(ctx context.Context, gw *client.Client, in arguments) error {
			return show(a, listing(string(in.email)+" has no live sessions.", []string{"SESSION", "CLIENT", "LAST USED", "LOGGED IN", "ENDS", "FROM"}, func(s adminapi.Session) []string {
				used := "unknown"
				if !s.Used.IsZero() {
					used = a.stamp(s.Used)
				}
				return []string{string(s.ID), cmp.Or(s.Client, "unknown"), used, a.stamp(s.Created), a.stamp(s.Expires), s.Remote}
			}))(gw.Sessions(ctx, string(in.email)))
		})
}

func (a *app) accountRevoke() *cobra.Command {
	return a.remote(&cobra.Command{Use: "revoke EMAIL", Short: "End every session of an account at once"},
		func(ctx context.Context, gw *client.Client, in arguments) error {
			return show(a, func(w *lines, r adminapi.Revoked) { w.printf("%s of %s ended.", plural(r.Ended, "session"), in.email) })(gw.Revoke(ctx, string(in.email)))
		})
}
