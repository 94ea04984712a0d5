package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `Gatehouse is an access gateway for doors: it opens the locks of stations on the
local network for those who may, and keeps a journal of it.

"gatehouse serve" runs the gateway. The other commands administer a running one
over its socket, which --socket or GATEHOUSE_SOCKET name, or else the
configuration, the file that --config or GATEHOUSE_CONFIG names.

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
	root.SetHelpCommand(a.helpCommand(root))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if a.mistake = misnamed(cmd, cmd.Flags().Args()); a.mistake == nil {
			help(cmd, args)
		}
	})
	return root
}

func (a *app) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil {
				err = misnamed(cmd, rest)
			}
			if err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// misnamed returns the error of help for a command that does not exist: args are left
// below one that has subcommands.
func misnamed(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || !cmd.HasSubCommands() {
		return nil
	}
	return cmd.Args(cmd, args)
}

// group returns a command that only has subcommands: alone it is wrong usage.
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

// takes returns a check of the arguments of a command, by their names: each must be
// given but those in brackets, and no others.
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

// exclusive adds to a check that at most one of the flags is given.
func exclusive(next cobra.PositionalArgs, flags ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		given := slices.DeleteFunc(slices.Clone(flags), func(name string) bool { return !cmd.Flags().Changed(name) })
		if len(given) > 1 {
			return fmt.Errorf("--%s and --%s exclude each other", given[0], given[1])
		}
		return next(cmd, args)
	}
}

// number is the value of a flag that takes 1 to max.
type number struct {
	value *int
	max   int
}

// String implements [pflag.Value].
func (n *number) String() string {
	if n.value == nil {
		return ""
	}
	return strconv.Itoa(*n.value)
}

// Set implements [pflag.Value].
func (n *number) Set(text string) (err error) {
	value, err := strconv.Atoi(text)
	if err == nil && (value < 1 || value > n.max) {
		err = strconv.ErrRange
	}
	*n.value = value
	return err
}

// Type implements [pflag.Value].
func (n *number) Type() string {
	if n.max == math.MaxInt {
		return "a number from 1 on"
	}
	return fmt.Sprintf("a number from 1 to %d", n.max)
}

// flagError words what is wrong with a flag: a name that does not exist, or a value that
// it does not take. Other errors stay as they are.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return fmt.Errorf("%w%s", err, nearFlag(cmd, unknown.GetSpecifiedName()))
	}
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	takes := wrong.GetFlag().Value.Type()
	switch takes {
	case "uint64":
		takes = "a whole number"
	case "float64":
		takes = "a number such as 0.1"
	case "duration":
		takes = "a duration such as 500ms or 3s"
	case "bool":
		takes = "true or false"
	default:
		if _, ok := wrong.GetFlag().Value.(*number); !ok {
			return err
		}
	}
	return fmt.Errorf("--%s takes %s, not %q", wrong.GetFlag().Name, takes, wrong.GetValue())
}

// nearFlag returns a hint at the flag that a name was probably meant to be, found as
// cobra finds commands; else "".
func nearFlag(cmd *cobra.Command, name string) string {
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	if near := flags.SuggestionsFor(name); len(near) > 0 && len(name) > 1 {
		return fmt.Sprintf("; did you mean --%s?", near[0])
	}
	return ""
}
