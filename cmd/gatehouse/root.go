package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const rootLong = `Gatehouse is an access gateway for doors: it opens the locks of stations on the
local network for those who may, and keeps a journal of it.

"gatehouse serve" runs the gateway. The other commands administer a running one
over its socket, which --socket or GATEHOUSE_SOCKET name, or else the
configuration, the file that --config or GATEHOUSE_CONFIG names.

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
