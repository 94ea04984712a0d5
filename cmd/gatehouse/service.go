package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/gateway"
	"gatehouse/internal/install/service"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/web/adminapi"
)

// The gateway's user writes the text of the login prompt to setupFile while there is no
// administrator; root copies it to noticeFile as plain text.
const (
	setupFile  = "/run/gatehouse/setup.issue"
	noticeFile = "/run/gatehouse-notice/gatehouse.issue"
)

const serviceLong = `Make the gateway a service of this system: it starts with the system, is restarted
when it fails, and runs as its own user without other rights. This is for a
program that was copied by hand, on Linux with systemd; the Debian package does the
same. Start, stop, restart and status work with either.`

func (a *app) serviceCommand() *cobra.Command {
	cmd := group("service", "Run the gateway as a service of this system", serviceLong)
	cmd.AddCommand(
		a.serviceInstallCommand(),
		a.serviceOrder("uninstall", "Stop the service, and remove what install wrote", `Stop the gateway and remove the units that "gatehouse service install" wrote. The
configuration, the data, the user gatehouse and this program stay, and a later
installation uses them again. To remove them too, with every account, station and
journal record: rm -rf /etc/gatehouse /var/lib/gatehouse; userdel gatehouse`, (*service.Service).Uninstall),
		// What install ends with; the Debian package runs it.
		a.command(&cobra.Command{Use: "ready", Short: "Print where the gateway listens, and what to do next", Hidden: true},
			func(ctx context.Context, _ []string) error { return a.ready(ctx) }),
		a.serviceOrder("start", "Start the service, with its ports", `Start the gateway and open its ports, and wait until it is ready. One that runs
already stays as it is.`, (*service.Service).Start),
		a.serviceOrder("stop", "Stop the service, and close its ports", `Close the ports and stop the gateway, so that no connection starts it again. It still
starts with the system.`, (*service.Service).Stop),
		a.serviceOrder("restart", "Restart the service", `Stop the gateway, start it again, and wait until it is ready. Its ports stay open:
clients that connect meanwhile wait for a moment.`, (*service.Service).Restart),
		a.serviceOrder("status", "Show whether the service runs", `Show what systemd knows of the gateway: whether it runs, whether its ports are open,
and whether it starts with the system. "gatehouse status" asks the gateway itself and
shows more. Exit status 1 means that it does not run.`, nil),
	)
	return cmd
}

func (a *app) serviceInstallCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "install",
		Short: "Make this program a service, and start it",
		Long: `Make this program a service of systemd, start it, and wait until it is ready.
It needs root. The program must be where only root can replace it, such as
/usr/local/bin.

It creates the user gatehouse, the configuration /etc/gatehouse/gatehouse.toml (unless
there is one), the folder /var/lib/gatehouse for the data, and units in
/etc/systemd/system. Change those with "systemctl edit", not in the files.

After copying a newer program over the old one, run it again: it updates the units and
restarts the gateway. If a first installation fails, the files that it wrote are removed.`,
		Example: `  sudo install -m 755 gatehouse /usr/local/bin/
  sudo /usr/local/bin/gatehouse service install`,
	}, func(ctx context.Context, _ []string) error { return a.installService(ctx) })
}

func (a *app) installService(ctx context.Context) error {
	if a.config != "" || a.socket != "" {
		return wrongUsagef("the service reads /etc/gatehouse/gatehouse.toml: --config and --socket have no meaning here")
	}
	s, err := newService()
	if err == nil {
		err = s.Install(ctx)
	}
	if err != nil {
		return err
	}
	return a.ready(ctx)
}

func (a *app) ready(ctx context.Context) error {
	status, _ := a.status(ctx) // what does not answer has no listeners to show
	found := list(status.Listeners)
	return a.result(found, func(w *lines) {
		setup, _ := gateway.ReadNotice(setupFile) // there is none once there is an administrator
		printReady(w, found, strings.TrimSpace(setup), append(sitefile.BootFolders(), "/etc/gatehouse"))
	})
}

// newService returns the service that this program is, or could be. It checks the
// configuration as the service reads it: without the environment of the person who installs
// it.
func newService() (*service.Service, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved // else it has been removed, which Install reports
	}
	return service.New(service.Config{Executable: path, Check: func() error {
		_, err := config.Load("", []string{"HOME=/var/lib/gatehouse"})
		return err
	}})
}

// findIn returns the first path at which one of the folders has one of the files; "" if
// none has.
func findIn(folders []string, names ...string) string {
	for _, folder := range folders {
		for _, name := range names {
			path := filepath.Join(folder, name)
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return ""
}

// noticeCommand copies the setup code to where the login prompt shows it, for as long as
// it holds.
func (a *app) noticeCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:    "notice",
		Short:  "Show the setup code of a new gateway on the text console",
		Long:   "The service gatehouse-notice runs this, as root, while there is a setup code.\nIt ends when the code changes.",
		Hidden: true,
	}, func(ctx context.Context, _ []string) error {
		return gateway.ShowNotice(ctx, setupFile, noticeFile, new(machine.Supervisor).Ready)
	})
}

// printReady prints what runs now, where, and what to do next: setup is the notice of a
// gateway without an administrator, folders are where site files and their results are.
func printReady(w *lines, listeners []adminapi.Listener, setup string, folders []string) {
	w.printf("The gateway is ready, and starts with the system.")
	w.table(listenerRows(listeners))
	waiting, result := findIn(folders, sitefile.FileNames()...), findIn(folders, "gatehouse-result.txt")
	if waiting != "" {
		setup = waiting + " is applied now, which takes up to a few minutes. The result is written to gatehouse-result.txt beside it."
	} else if result != "" {
		setup = strings.TrimSpace("A site file was applied; the result is in " + result + "\n\n" + setup)
	}
	if setup != "" {
		w.printf("")
		for line := range strings.Lines(setup) {
			w.printf("%s", printable(strings.TrimRight(line, "\r\n")))
		}
	}
	w.printf("")
	w.printf("Next: \"sudo gatehouse status\" shows its state, \"sudo gatehouse doctor\" what could be better.")
}

// serviceOrder returns a command that does one thing to the service, or nothing where
// order is nil, and prints its state.
func (a *app) serviceOrder(verb, short, long string, order func(*service.Service, context.Context) error) *cobra.Command {
	return a.command(&cobra.Command{Use: verb, Short: short, Long: long}, func(ctx context.Context, _ []string) error {
		s, err := newService()
		if err == nil && order != nil {
			err = order(s, ctx)
		}
		if err != nil {
			return err
		}
		state, err := s.Status(ctx)
		if err == nil {
			err = a.result(state, func(w *lines) { printService(w, state) })
		}
		if err == nil && order == nil {
			err = notRunning(state)
		}
		return err
	})
}

// notRunning is nil for a service that runs; else the error of the command.
func notRunning(s service.State) error {
	switch {
	case s.Running:
		return nil
	case s.Installed == "no":
		return errors.New(`the service is not installed: run "gatehouse service install"`)
	case s.State == "inactive":
		return errors.New(`the service is stopped: run "gatehouse service start"`)
	default:
		return fmt.Errorf("the service is not ready (%s): see journalctl --unit=gatehouse.service", s.State)
	}
}

func printService(w *lines, s service.State) {
	if s.Installed == "no" {
		w.table([][]string{{"Service", "not installed"}})
		return
	}
	state := s.State
	if s.Running {
		state = "running"
	}
	w.table([][]string{
		{"Service", state},
		{"Ports", map[bool]string{true: "open", false: "closed"}[s.Sockets]},
		{"Starts with the system", yesNo(s.Enabled)},
		{"Installed by", s.Installed},
	})
}
