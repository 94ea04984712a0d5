package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

const rootLong = `Gatehouse is an access gateway for doors: it opens the locks of stations on the
local network for those who may, and keeps a journal of it.

"gatehouse serve" runs the gateway. The other commands administer a running one
over its socket: that of --socket or GATEHOUSE_SOCKET, else that of the
configuration, whose file --config or GATEHOUSE_CONFIG names.

Exit status: 0 done, 1 failed (one line says why), 2 wrong usage.`

const rootExample = `  gatehouse serve
  gatehouse account add porter@example.test
  gatehouse station add --id 1042 --locks 2
  gatehouse grant porter@example.test 1042
  gatehouse journal --follow`

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := group("gatehouse", "Open doors on the local network, and keep a journal of it", rootLong)
	root.Example = rootExample
	root.Version = version
	root.SilenceErrors = true
	root.SilenceUsage = true
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "write one JSON document, or one per line when following")
	flags.StringVar(&a.socket, "socket", "", "talk to the gateway on the socket at `PATH`")
	flags.StringVar(&a.config, "config", "", "read the configuration `FILE` (default /etc/gatehouse/gatehouse.toml where there is one)")
	root.AddCommand(
		a.serveCommand(),
		a.statusCommand(),
		a.doctorCommand(),
		a.clockCommand(),
		a.accountCommand(),
		a.stationCommand(),
		a.grantCommand(),
		a.ungrantCommand(),
		a.grantsCommand(),
		a.groupCommand(),
		a.holidayCommand(),
		a.tokenCommand(),
		a.sessionsCommand(),
		a.unlockCommand(),
		a.applyCommand(),
		a.firstBootCommand(),
		a.journalCommand(),
		a.cloudCommand(),
		a.backupCommand(),
		a.restoreCommand(),
		a.updateCommand(),
		a.workerCommand(),
		a.noticeCommand(),
		a.serviceCommand(),
		a.simulateCommand(),
		a.versionCommand(),
	)
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"}) // it was just added
	needsCommand(completion)
	root.SetHelpCommand(helpCommand(root))
	return root
}

func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 && cmd.HasSubCommands() {
				err = cmd.Args(cmd, rest)
			}
			if err != nil {
				return err
			}
			return cmd.Help()
		},
	}
}

// group returns a command that only has subcommands.
func group(use, short, long string) *cobra.Command {
	cmd := &cobra.Command{Use: use + " COMMAND", Short: short, Long: long, DisableFlagsInUseLine: true, SuggestionsMinimumDistance: 2}
	needsCommand(cmd)
	return cmd
}

// needsCommand makes a command that has subcommands wrong usage without one of them.
func needsCommand(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s needs a command", cmd.CommandPath())
		}
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf("; did you mean %q?", near[0])
		}
		return fmt.Errorf("there is no command %q%s", cmd.CommandPath()+" "+args[0], hint)
	}
	cmd.RunE = func(*cobra.Command, []string) error { return nil } // Args never lets it run
}

// takes returns a check of the arguments of a command, by their names: each must be
// given but those in brackets, and no others; more of the last if it ends in "...".
func takes(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for i, name := range names {
			if i >= len(args) && !strings.HasPrefix(name, "[") {
				return fmt.Errorf("the argument %s is missing", strings.TrimSuffix(name, "..."))
			}
		}
		if len(args) > len(names) && !strings.Contains(strings.Join(names, " "), "...") {
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// exclusive makes it wrong usage of a command to give more than one of the flags.
func exclusive(cmd *cobra.Command, flags ...string) {
	next := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		given := slices.DeleteFunc(slices.Clone(flags), func(name string) bool { return !cmd.Flags().Changed(name) })
		if len(given) > 1 {
			return fmt.Errorf("--%s and --%s exclude each other", given[0], given[1])
		}
		return next(cmd, args)
	}
}

// within returns wrong usage unless the value of a flag lies between two bounds.
func within[T cmp.Ordered](flag string, value, least, most T) error {
	if value < least || value > most {
		return wrongUsagef("--%s takes %v to %v, not %v", flag, least, most, value)
	}
	return nil
}

// command completes a command that does its work on this machine: its usage line names its
// arguments.
func (a *app) command(cmd *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd.Args = takes(strings.Fields(cmd.Use)[1:]...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.started = true
		return run(cmd.Context(), args)
	}
	return cmd
}

// arguments are the parsed arguments of a command, by their names in its usage line:
// EMAIL, N (a station), LOCK, NAME, WHO (an account or a group), WHAT (a station or a
// group) and GROUP. What a command does not take is zero.
type arguments struct {
	email   site.Email
	station site.StationID
	lock    site.LockID
	name    string // of a token
	group   site.GroupName

	who, what site.Ref
	texts     []string // the arguments of all other names
}

// remote completes a command that asks the running gateway: its usage line names its
// arguments, which are parsed before run.
func (a *app) remote(cmd *cobra.Command, run func(context.Context, *client.Client, arguments) error) *cobra.Command {
	names := strings.Fields(cmd.Use)[1:]
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return a.command(cmd, func(ctx context.Context, args []string) error {
		in, err := parseArguments(names, args)
		if err != nil {
			return wrongUsage(err)
		}
		return a.call(func(gw *client.Client) error {
			a.useSiteZone(ctx, gw)
			return absent(in, run(ctx, gw, in))
		})
	})
}

// shown returns what a command runs that asks the gateway one thing and shows the answer.
func shown[T any](a *app, ask func(*client.Client, context.Context) (T, error), human func(*lines, T)) func(context.Context, *client.Client, arguments) error {
	return func(ctx context.Context, gw *client.Client, _ arguments) error { return show(a, human)(ask(gw, ctx)) }
}

func parseArguments(names, args []string) (in arguments, err error) {
	for i, text := range args {
		switch names[min(i, len(names)-1)] {
		case "EMAIL":
			in.email, err = site.ParseEmail(text)
		case "N":
			in.station, err = site.ParseStationID(text)
		case "LOCK":
			in.lock, err = site.ParseLockID(text)
		case "NAME":
			in.name = text
		case "GROUP":
			in.group, err = site.ParseGroupName(text)
		case "WHO":
			in.who, err = site.ParseWho(text)
		case "WHAT":
			in.what, err = site.ParseWhat(text)
		default:
			in.texts = append(in.texts, text)
		}
		if err != nil {
			return in, err
		}
	}
	return in, nil
}

// removed names what was removed.
type removed struct {
	Email        site.Email     `json:"email,omitempty"`
	AccountGroup site.GroupName `json:"accountGroup,omitempty"`
	StationID    site.StationID `json:"stationId,omitempty"`
	StationGroup site.GroupName `json:"stationGroup,omitempty"`
	Name         string         `json:"name,omitempty"` // of a token, a group or a holiday
}

// gone writes that something was removed, unless removing it has failed.
func (a *app) gone(what removed, err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return a.result(what, func(w *lines) { w.printf(format, args...) })
}

// zonePatience bounds how long a command waits for the time zone of the site.
const zonePatience = 5 * time.Second

// useSiteZone makes the command read and show times in the time zone of the site. A
// gateway that does not answer leaves that of this machine.
func (a *app) useSiteZone(ctx context.Context, gw *client.Client) {
	ctx, cancel := context.WithTimeout(ctx, zonePatience)
	defer cancel()
	status, err := gw.Status(ctx)
	if err != nil || status.TimeZone == "" {
		return
	}
	if zone, err := time.LoadLocation(status.TimeZone); err == nil {
		a.zone = zone
	}
}

// absent adds to the error of a gateway that does not have what the arguments name the
// command that lists what there is.
func absent(in arguments, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	hint := `"gatehouse station list" lists the stations`
	switch {
	case in.name != "":
		hint = `"gatehouse token list" and "gatehouse station list" list what there is`
	case in.who != (site.Ref{}):
		hint = `"gatehouse account list", "gatehouse station list", "gatehouse group list" and "gatehouse grants" list what there is`
	case in.group != "":
		hint = `"gatehouse group list" lists the groups`
	case len(in.texts) > 0:
		hint = `"gatehouse holiday list" lists the holidays`
	case in.email != "":
		hint = `"gatehouse account list" lists the accounts`
	}
	return fault.Wrap(fault.NotFound, fault.Sentence(err)+"; "+hint, err)
}
