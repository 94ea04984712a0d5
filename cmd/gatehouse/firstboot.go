package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/gateway"
	"gatehouse/internal/install/firstboot"
	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/web/adminapi/client"
	"gatehouse/systemd"
)

const (
	// restartTimeout is how long the unit may take to start, and a little more.
	restartTimeout = 4 * time.Minute
	// systemTimeout is for what the journal of systemd answers at once.
	systemTimeout = 10 * time.Second
)

func (a *app) firstBootCommand() *cobra.Command {
	var dryRun, takesName bool
	cmd := a.command(&cobra.Command{
		Use:   "first-boot [FILE]",
		Short: "Set this board up from a site file on its boot partition",
		Long: `Set this board up from the file gatehouse-site.toml that lies on its boot partition
(/boot/firmware, /boot/efi or /boot) or beside its configuration: settings, accounts,
stations and grants. Everything is checked before anything changes. The result goes
to gatehouse-result.txt beside the file. Then the file is overwritten, and a copy
without its passwords is left as gatehouse-site.done.toml. Without such a file nothing
happens.

The service gatehouse-site runs this, as root, each time the board starts. Interrupted
by a power cut, it continues when the power is back. To check a file at a desk, without
any gateway, pass its name and --dry-run.`,
		Example: `  gatehouse first-boot
  gatehouse first-boot gatehouse-site.toml --dry-run`,
	}, func(ctx context.Context, args []string) error {
		return a.firstBoot(ctx, strings.Join(args, ""), dryRun, takesName)
	})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only check")
	cmd.Flags().BoolVar(&takesName, "takes-name", false, "this machine takes over the gateway's name, as the image does")
	return cmd
}

func (a *app) firstBoot(ctx context.Context, file string, dryRun, takesName bool) error {
	out, failed := firstboot.Run(ctx, firstboot.Config{
		File: file, Folders: sitefile.BootFolders(), Settings: a.config, Socket: a.namedSocket(), Environ: a.environ,
		Version: version, DryRun: dryRun, TakesName: takesName, Check: gateway.CheckCertificate,
		Dial:    func(socket string) firstboot.Gateway { return client.New(socket) },
		Restart: restartUnit, Complaint: unitComplaint, Network: machine.NetworkName, Now: time.Now,
	})
	if failed != nil && !a.json {
		if out.Result != "" {
			return fmt.Errorf("%w\nthis is in %s too", failed, out.Result)
		}
		return failed
	}
	return errors.Join(failed, a.result(out, func(w *lines) { printFirstBoot(w, out) }))
}

// printFirstBoot prints the outcome without any secret: the system's journal keeps it.
func printFirstBoot(w *lines, out firstboot.Outcome) {
	for _, warning := range out.Warnings {
		w.printf("Note: %s", printable(warning))
	}
	switch {
	case out.File == "":
		w.printf("There is no gatehouse-site.toml in %s or beside the configuration; nothing to do.", strings.Join(sitefile.BootFolders(), ", "))
	case out.DryRun:
		w.printf("%s has no errors: %s to make; nothing was changed.", out.File, plural(len(out.Changes), "change"))
	case out.OnlyWiped:
		w.printf("%s was applied before; its passwords are wiped now.", out.File)
	default:
		w.printf("%s was applied, with %s made; the result is in %s.", out.File, plural(len(out.Changes), "change"), out.Result)
	}
}

// restartUnit restarts the gateway where systemd runs it.
func restartUnit(ctx context.Context) (restarted bool, err error) {
	m := machine.This()
	if !m.HasSystemd() {
		return false, nil
	}
	units, err := m.Units(ctx, []string{"ActiveState"}, systemd.Service)
	if err != nil || units[0]["ActiveState"] == "inactive" {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	_, err = m.Run(ctx, "systemctl", "restart", systemd.Service)
	return err == nil, err
}

// unitComplaint returns what the gateway said last when it did not start: the lines that
// this program writes when it fails, which hold no secret.
func unitComplaint(ctx context.Context) (said string) {
	ctx, cancel := context.WithTimeout(ctx, systemTimeout)
	defer cancel()
	text, _ := machine.This().Run(ctx, "journalctl", "--unit="+systemd.Service, "--lines=20", "--output=cat", "--no-pager", "--quiet") // "" says nothing
	for line := range strings.Lines(text) {
		if complaint, is := strings.CutPrefix(strings.TrimSpace(line), "gatehouse: "); is {
			said = printable(complaint)
		}
	}
	return said
}
