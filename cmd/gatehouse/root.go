package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const rootLong = `Gatehouse is an access gateway for doors: it opens the locks of stations on the
local network for whoever may, and keeps a journal of it.

"gatehouse serve" runs the gateway. The other commands administer a running one
over its socket: --socket or GATEHOUSE_SOCKET name it, else the configuration
does, which --config or GATEHOUSE_CONFIG names.

Exit status: 0 done, 1 failed (one line says why), 2 wrong usage.`

const rootExample = `  gatehouse serve
  gatehouse account add porter@example.test
  gatehouse station add --id 1042 --locks 2 --name "North entrance"
  gatehouse grant porter@example.test 1042
  gatehouse journal --follow`

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := group("gatehouse", "Open doors on the local network, and keep a journal of it", rootLong)
	root.Example = rootExample
	root.Version = version
	root.SilenceErrors = true
	root.SetFlagErrorFunc(flagError)
	root.SilenceUsage = true
	root.CompletionOptions.DisableDefaultCmd = true
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
		a.unlockCommand(),
		a.applyCommand(),
		a.firstBootCommand(),
		a.journalCommand(),
		a.cloudCommand(),
		a.backupCommand(),
		a.restoreCommand(),
		a.workerCommand(),
		a.noticeCommand(),
		a.serviceCommand(),
		a.simulateCommand(),
		a.versionCommand(),
		a.completionCommand(root),
	)
	return root
}

// group makes a command that only holds others: alone it is wrong usage.
func group(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use:                        use + " COMMAND",
		Short:                      short,
		Long:                       long,
		DisableFlagsInUseLine:      true,
		SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("%s needs a command: %s", cmd.CommandPath(), strings.Join(subcommands(cmd), ", "))
			}
			hint := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf("; did you mean %q?", near[0])
			}
			return fmt.Errorf("there is no command %q%s", cmd.CommandPath()+" "+args[0], hint)
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args never lets it run
	}
}

func subcommands(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// takes says which arguments a command takes; each must be given. A name in
// brackets may be left out.
func takes(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		for i, name := range names {
			if i >= len(args) && !strings.HasPrefix(name, "[") {
				return fmt.Errorf("the argument %s is missing", name)
			}
		}
		if len(args) > len(names) {
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// exclusive takes what next takes, unless more than one of the flags is given.
func exclusive(next cobra.PositionalArgs, flags ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		given := slices.DeleteFunc(slices.Clone(flags), func(name string) bool { return !cmd.Flags().Changed(name) })
		if len(given) > 1 {
			return fmt.Errorf("--%s and --%s exclude each other", given[0], given[1])
		}
		return next(cmd, args)
	}
}

// fromOne takes what next takes, unless one of the flags is given and less than 1.
func fromOne(next cobra.PositionalArgs, flags ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for _, name := range flags {
			if n, err := cmd.Flags().GetInt(name); err != nil || n < 1 && cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s takes a number from 1 on", name)
			}
		}
		return next(cmd, args)
	}
}

// flagError says of a flag whose value cannot be read what it takes; other errors
// stay as they are.
func flagError(cmd *cobra.Command, err error) error {
	var wrong interface {
		error
		GetValue() string
	}
	if !errors.As(err, &wrong) {
		return err
	}
	text, _ := strings.CutPrefix(err.Error(), fmt.Sprintf("invalid argument %q for ", wrong.GetValue()))
	text, _, _ = strings.Cut(text, `" flag: `)
	_, name, _ := strings.Cut(text, "--") // after the short form, if it has one
	flag := cmd.Flags().Lookup(name)
	if flag == nil {
		return err
	}
	var takes string
	switch flag.Value.Type() {
	case "int", "uint64":
		takes = "a whole number"
	case "float64":
		takes = "a number such as 0.1"
	case "duration":
		takes = "a duration such as 500ms or 3s"
	case "bool":
		takes = "true or false"
	default:
		return err
	}
	return fmt.Errorf("--%s takes %s, not %q", name, takes, wrong.GetValue())
}
