package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) accountCommand() *cobra.Command {
	cmd := group("account", "Manage who may log in", "Accounts are people and apps that log in with an e-mail address and a password.\nWhat an account may open is a matter of grants.")
	cmd.AddCommand(
		a.accountAdd(), a.accountList(), a.accountRemove(),
		a.accountPassword(), a.accountSessions(), a.accountRevoke(),
	)
	return cmd
}

func (a *app) accountAdd() *cobra.Command {
	var admin, fromStdin bool
	cmd := &cobra.Command{
		Use:   "add EMAIL",
		Short: "Make an account",
		Long: `Make an account. Unless --password-stdin gives one, a password is generated and
printed this once; the gateway keeps no copy that could be read.`,
		Example: `  gatehouse account add porter@example.test
  gatehouse account add owner@example.test --admin --password-stdin < password.txt`,
		Args: takes("EMAIL"),
		RunE: a.does(func(ctx context.Context, args []string) error {
			return a.addAccount(ctx, args[0], admin, fromStdin)
		}),
	}
	cmd.Flags().BoolVar(&admin, "admin", false, "let the account administer the gateway, in the console and over HTTPS")
	passwordFlag(cmd, &fromStdin)
	return cmd
}

func passwordFlag(cmd *cobra.Command, fromStdin *bool) {
	cmd.Flags().BoolVar(fromStdin, "password-stdin", false, "read the password from the first line of standard input")
}

func (a *app) addAccount(ctx context.Context, email string, admin, fromStdin bool) error {
	address, password, err := a.credentials(ctx, email, fromStdin)
	if err != nil {
		return err
	}
	return a.call(func(gw *client.Client) error {
		issued, err := gw.AddAccount(ctx, adminapi.NewAccount{Email: address, Password: password, Admin: admin})
		if err != nil {
			return err
		}
		return a.result(issued, func(w *lines) {
			w.printf("Account %s is made.", issued.Email)
			printPassword(w, issued)
		})
	})
}

// printPassword shows a password that was generated.
func printPassword(w *lines, issued adminapi.IssuedAccount) {
	if issued.Password != "" {
		w.printf("Password: %s", issued.Password)
		w.printf("It is not shown again; \"gatehouse account password %s\" makes a new one.", issued.Email)
	}
}

// credentials reads an address and, where asked to, the password from standard
// input.
func (a *app) credentials(ctx context.Context, email string, fromStdin bool) (address, password string, err error) {
	parsed, err := site.ParseEmail(email)
	if err != nil {
		return "", "", wrongUsage(err)
	}
	if !fromStdin {
		return string(parsed), "", nil
	}
	type reading struct {
		line string
		err  error
	}
	read := make(chan reading, 1)
	go func() { // whoever types may also interrupt; then it lives until the process ends
		line, err := firstLine(a.stdin)
		read <- reading{line, err}
	}()
	select {
	case r := <-read:
		return string(parsed), r.line, r.err
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
}

// maxPassword bounds what is read for a password; the gateway sets its own bound
// below it.
const maxPassword = 4096

func firstLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxPassword)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the password from standard input: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("the first line of standard input is empty: write the password there, or leave out --password-stdin to have one generated")
	}
	return line, nil
}

func (a *app) accountList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the accounts",
		Args:  takes(),
		RunE: a.does(func(ctx context.Context, _ []string) error {
			return a.call(func(gw *client.Client) error {
				accounts, err := gw.Accounts(ctx)
				if err != nil {
					return err
				}
				return a.result(list(accounts), func(w *lines) { a.accountTable(w, accounts) })
			})
		}),
	}
}

func (a *app) accountTable(w *lines, accounts []adminapi.Account) {
	if len(accounts) == 0 {
		w.printf("There are no accounts; \"gatehouse account add EMAIL\" makes one.")
		return
	}
	rows := make([][]string, len(accounts))
	for i, acc := range accounts {
		rows[i] = []string{string(acc.Email), yesNo(acc.Admin), a.stamp(acc.Created), string(acc.AccountID)}
	}
	w.table([]string{"EMAIL", "ADMIN", "MADE", "ID"}, rows)
}

func (a *app) accountRemove() *cobra.Command {
	return &cobra.Command{
		Use:               "remove EMAIL",
		Short:             "Remove an account, its sessions and its grants",
		Long:              "Remove an account. Its sessions end at once and its grants go with it. Nothing is\nasked.",
		Args:              takes("EMAIL"),
		ValidArgsFunction: a.completeArguments(a.emails),
		RunE:              a.does(a.removeAccount),
	}
}

// removedAccount is what went with an account.
type removedAccount struct {
	Email    string `json:"email"`
	Sessions int    `json:"sessionsEnded"`
	Grants   int    `json:"grantsRemoved"`
}

func (a *app) removeAccount(ctx context.Context, args []string) error {
	email, err := site.ParseEmail(args[0])
	if err != nil {
		return wrongUsage(err)
	}
	return a.call(func(gw *client.Client) error {
		sessions, err := gw.Sessions(ctx, string(email))
		if err != nil {
			return err
		}
		grants, err := countGrants(ctx, gw, func(g adminapi.Grant) bool { return g.Email == email })
		if err != nil {
			return err
		}
		if err := gw.RemoveAccount(ctx, string(email)); err != nil {
			return err
		}
		removed := removedAccount{Email: string(email), Sessions: len(sessions), Grants: grants}
		return a.result(removed, func(w *lines) {
			w.printf("Account %s is removed; %s ended, %s removed.", email, plural(removed.Sessions, "session"), plural(grants, "grant"))
		})
	})
}

func countGrants(ctx context.Context, gw *client.Client, counts func(adminapi.Grant) bool) (n int, err error) {
	grants, err := gw.Grants(ctx)
	for _, g := range grants {
		if counts(g) {
			n++
		}
	}
	return n, err
}

func (a *app) accountPassword() *cobra.Command {
	var fromStdin bool
	cmd := &cobra.Command{
		Use:   "password EMAIL",
		Short: "Give an account a new password",
		Long: `Give an account a new password. Unless --password-stdin gives one, it is generated
and printed this once. Sessions go on; "gatehouse account revoke EMAIL" ends them.`,
		Args:              takes("EMAIL"),
		ValidArgsFunction: a.completeArguments(a.emails),
		RunE: a.does(func(ctx context.Context, args []string) error {
			return a.setPassword(ctx, args[0], fromStdin)
		}),
	}
	passwordFlag(cmd, &fromStdin)
	return cmd
}

func (a *app) setPassword(ctx context.Context, email string, fromStdin bool) error {
	address, password, err := a.credentials(ctx, email, fromStdin)
	if err != nil {
		return err
	}
	return a.call(func(gw *client.Client) error {
		issued, err := gw.SetPassword(ctx, address, password)
		if err != nil {
			return err
		}
		return a.result(issued, func(w *lines) {
			w.printf("Account %s has a new password.", issued.Email)
			printPassword(w, issued)
			w.printf("Its sessions go on; \"gatehouse account revoke %s\" ends them.", issued.Email)
		})
	})
}

func (a *app) accountSessions() *cobra.Command {
	return &cobra.Command{
		Use:               "sessions EMAIL",
		Short:             "List the live sessions of an account",
		Args:              takes("EMAIL"),
		ValidArgsFunction: a.completeArguments(a.emails),
		RunE: a.does(func(ctx context.Context, args []string) error {
			email, err := site.ParseEmail(args[0])
			if err != nil {
				return wrongUsage(err)
			}
			return a.call(func(gw *client.Client) error {
				sessions, err := gw.Sessions(ctx, string(email))
				if err != nil {
					return err
				}
				return a.result(list(sessions), func(w *lines) { a.sessionTable(w, email, sessions) })
			})
		}),
	}
}

func (a *app) sessionTable(w *lines, email site.Email, sessions []adminapi.Session) {
	if len(sessions) == 0 {
		w.printf("%s has no live sessions.", email)
		return
	}
	rows := make([][]string, len(sessions))
	for i, s := range sessions {
		rows[i] = []string{string(s.SessionID), a.stamp(s.Created), a.stamp(s.Expires), s.Remote}
	}
	w.table([]string{"SESSION", "LOGGED IN", "ENDS", "FROM"}, rows)
}

func (a *app) accountRevoke() *cobra.Command {
	return &cobra.Command{
		Use:               "revoke EMAIL",
		Short:             "End every session of an account at once",
		Args:              takes("EMAIL"),
		ValidArgsFunction: a.completeArguments(a.emails),
		RunE: a.does(func(ctx context.Context, args []string) error {
			email, err := site.ParseEmail(args[0])
			if err != nil {
				return wrongUsage(err)
			}
			return a.call(func(gw *client.Client) error {
				ended, err := gw.Revoke(ctx, string(email))
				if err != nil {
					return err
				}
				return a.result(adminapi.Revoked{Ended: ended}, func(w *lines) {
					w.printf("%s of %s ended.", plural(ended, "session"), email)
				})
			})
		}),
	}
}
