package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/board/slot"
	"gatehouse/internal/board/updates"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/update"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

// updateService is the unit that restarts the board at its time and judges a trial.
const updateService = "gatehouse-update.service"

const updateLong = `Update a board that runs the Gatehouse image. The update comes from a file, such as one
on a USB stick, or from an https:// or http:// address. It is refused unless a key of
this image has signed it, it is for this kind of board, and newer than what runs.

The new version is written to the slot that does not run, while doors go on opening, and
read back from the card. Then the board restarts and tries it, once. The new version
stays when its gateway is ready, HTTPS answers with its certificate, and every station
that was online is online again (after ten minutes: half of them). Otherwise, or if it
hangs or loses power, the board returns to the old version by itself: "gatehouse update
status" says why. Expect doors to be out of reach for about a minute at each restart;
--at chooses the time.

With --check and without FILE or URL, the update at url under [update] of the
configuration is checked. What a check has fetched is kept for the update.

An update that was interrupted continues when the same command is run again. Run it as
root. On other systems it changes nothing and prints how they are updated.`

const updateExample = `  gatehouse update /mnt/gatehouse_1.3.0_arm64.update
  gatehouse update https://example.test/gatehouse_1.3.0_arm64.update --at 03:00
  gatehouse update gatehouse_1.3.0_arm64.update --check
  gatehouse update status`

// updateFlags are the flags of update.
type updateFlags struct {
	board   string // a folder that stands for the board; "" is this system
	at      string
	sha256  string
	check   bool
	oldData bool
}

func (a *app) updateCommand() *cobra.Command {
	var flags updateFlags
	cmd := a.command(&cobra.Command{
		Use:     "update [FILE|URL]",
		Short:   "Update a board that runs the Gatehouse image",
		Long:    updateLong,
		Example: updateExample,
	}, func(ctx context.Context, args []string) error {
		from, err := a.updateFrom(args, flags)
		if err != nil {
			return err
		}
		return a.update(ctx, from, flags)
	})
	cmd.PersistentFlags().StringVar(&flags.board, "board", "", "the folder `DIR` stands for the board, for tests")
	_ = cmd.PersistentFlags().MarkHidden("board") // it was just added
	cmd.Flags().BoolVar(&flags.check, "check", false, "fetch and check it, and change nothing that the board starts from")
	atFlag(cmd, &flags.at)
	cmd.Flags().StringVar(&flags.sha256, "sha256", "", "refuse a file of another SHA-256 than these 64 `HEX` digits")
	cmd.AddCommand(
		a.command(&cobra.Command{
			Use:   "status",
			Short: "Show which versions this board has, and how the last update ended",
			Long: `Show which version runs from which slot, which one the other slot has, what an update
does at the moment, and how the last one ended, and why if it was undone. Any user may
run it.`,
		}, func(ctx context.Context, _ []string) error { return a.updateStatus(ctx, flags) }),
		a.rollbackCommand(&flags),
		a.command(&cobra.Command{
			Use:   "withdraw",
			Short: "Withdraw the version that waits for its moment",
			Long:  "Call off the restart that waits for its moment. The version stays in its slot.",
		}, func(ctx context.Context, _ []string) error {
			return a.restarting(ctx, flags, func(u *update.Updater, _ time.Time) (update.Outcome, error) { return u.Withdraw(ctx) })
		}),
		a.command(&cobra.Command{Use: "run", Short: "Judge a trial, and carry out what the gateway asks for", Hidden: true},
			func(ctx context.Context, _ []string) error {
				return a.updating(flags, a.serviceLog(), func(u *update.Updater) error { return u.Run(ctx) })
			}),
		a.command(&cobra.Command{Use: "settle", Short: "Note how this start came about", Hidden: true},
			func(ctx context.Context, _ []string) error {
				return a.updating(flags, a.serviceLog(), func(u *update.Updater) error { return u.Settle(ctx) })
			}),
	)
	return cmd
}

func (a *app) rollbackCommand(flags *updateFlags) *cobra.Command {
	cmd := a.command(&cobra.Command{
		Use:   "rollback",
		Short: "Return to the version in the other slot",
		Long: `Restart the board into the version in the other slot, which is tried as an update is:
if it does not become ready, the board returns to this one by itself.

A version that is older than the present database cannot read it. With --old-data it
restores the database of before the update: what was set since then, such as accounts
and grants, is lost; revocations and the journal are kept.`,
		Example: "  gatehouse update rollback --at 03:00",
	}, func(ctx context.Context, _ []string) error { return a.rollback(ctx, *flags) })
	atFlag(cmd, &flags.at)
	cmd.Flags().BoolVar(&flags.oldData, "old-data", false, "restore the database of before the update")
	return cmd
}

func atFlag(cmd *cobra.Command, at *string) {
	cmd.Flags().StringVar(at, "at", "", "restart at `TIME`: 03:00 in the time zone of the site, or 2026-11-21T03:00:00Z")
}

// updateFrom returns where the update is: as the argument says, or for a check without one
// the configuration.
func (a *app) updateFrom(args []string, flags updateFlags) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	missing := wrongUsagef("the argument FILE|URL is missing")
	if flags.check {
		cfg, err := a.settings()
		if err != nil || cfg.Update.URL != "" {
			return cfg.Update.URL, err
		}
		missing = wrongUsagef("name a FILE or URL to check, or set url under [update] of the configuration")
	}
	if _, err := openBoard(flags); err != nil {
		return "", wrongUsage(errors.New(describe(err))) // an argument would not help on this system
	}
	return "", missing
}

// update installs or checks an update.
func (a *app) update(ctx context.Context, from string, flags updateFlags) error {
	o := update.Order{Check: flags.check}
	var err error
	if o.From, err = update.ParseSource(from); err != nil {
		return wrongUsage(errors.New(describe(err)))
	}
	if flags.sha256 != "" {
		o.SHA256 = new(updatefile.Sum)
		if err := o.SHA256.UnmarshalText([]byte(flags.sha256)); err != nil {
			return wrongUsagef("--sha256 takes 64 hexadecimal digits: %w", err)
		}
	}
	return a.restarting(ctx, flags, func(u *update.Updater, at time.Time) (update.Outcome, error) {
		o.At = at
		return u.Update(ctx, o)
	})
}

func (a *app) rollback(ctx context.Context, flags updateFlags) error {
	return a.restarting(ctx, flags, func(u *update.Updater, at time.Time) (update.Outcome, error) {
		return u.Rollback(ctx, at, flags.oldData)
	})
}

// restarting runs what ends with a restart of the board, and shows what it came to.
func (a *app) restarting(ctx context.Context, flags updateFlags, do func(*update.Updater, time.Time) (update.Outcome, error)) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // a console that is closed interrupts it in order
	defer stop()
	gw := client.New(a.updateSocket())
	defer gw.Close()
	a.useSiteZone(ctx, gw)
	at, err := a.restartTime(flags.at)
	if err != nil {
		return err
	}
	return a.updating(flags, slog.New(slog.DiscardHandler), func(u *update.Updater) error {
		show, done := a.workingOn("Updating")
		defer done()
		u.Progress = func(s site.UpdateStatus) { show(doing(s)) }
		out, err := do(u, at)
		done()
		if err != nil {
			return err
		}
		return a.result(out, func(w *lines) { a.printUpdate(w, out) })
	})
}

// doing returns what an update does, in a few words.
func doing(s site.UpdateStatus) string {
	var words string
	target := cmp.Or(s.Target, "the update")
	switch s.Phase {
	case site.UpdateFetching:
		words = "Fetching " + target
	case site.UpdateChecking:
		words = "Checking " + target
	case site.UpdateWriting:
		words = "Writing " + target
	case site.UpdateVerifying:
		words = "Reading back " + target
	default:
		return "Updating"
	}
	if s.Percent > 0 {
		words += fmt.Sprintf(": %d %%", s.Percent)
	}
	return words
}

// printUpdate prints what an update came to.
func (a *app) printUpdate(w *lines, out update.Outcome) {
	switch {
	case out.Checked:
		w.printf("Version %s is genuine, for this board, newer than %s, and there is room for it; nothing was changed.", printable(out.Version), printable(out.Current))
		return
	case out.Withdrawn:
		w.printf("Version %s is no longer to be tried: version %s goes on running.", printable(out.Version), printable(out.Current))
		return
	case out.At.IsZero():
		w.printf("Version %s is in slot %s; the board restarts now to try it.", printable(out.Version), out.Slot)
	default:
		w.printf("Version %s is in slot %s; the board restarts at %s to try it, or later, once its clock is trusted.", printable(out.Version), out.Slot, a.local(out.At.Time))
	}
	w.printf("How it goes: gatehouse update status")
}

// updateStatus shows what root has written for everyone.
func (a *app) updateStatus(ctx context.Context, flags updateFlags) error {
	s, err := slot.Exchange{Root: flags.board}.ReadStatus()
	if fault.Is(err, fault.NotFound) {
		if _, e := openBoard(flags); e == nil {
			return fault.New(fault.Unavailable, "The status of updates is not there yet: \"systemctl status gatehouse-slot\" says why")
		}
		s, err = site.UpdateStatus{Advice: updates.Advice()}, nil
	}
	if err != nil {
		return err
	}
	gw := client.New(a.updateSocket())
	defer gw.Close()
	a.useSiteZone(ctx, gw)
	return a.result(s, func(w *lines) {
		for _, sentence := range s.Sentences(a.zone) {
			w.printf("%s", printable(sentence))
		}
	})
}

// updating runs do with the updater of this board, as root.
func (a *app) updating(flags updateFlags, log *slog.Logger, do func(*update.Updater) error) error {
	board, err := openBoard(flags)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return fault.New(fault.Forbidden, "Updating is for root: run it again with sudo in front")
	}
	gw := client.New(a.updateSocket())
	defer gw.Close()
	below := func(path string) string { return filepath.Join(cmp.Or(flags.board, "/"), path) }
	return do(update.New(update.Config{
		Board: board, Exchange: slot.Exchange{Root: flags.board}, Folder: below("/var/lib/gatehouse-update"),
		Keys: below(updatefile.KeysFile), Schema: sqlite.SchemaVersion(), Gateway: gw, Log: log, Serves: update.Serves,
		Restart: func(ctx context.Context) error { return systemctl(ctx, "reboot") },
		Wake:    func(ctx context.Context) error { return systemctl(ctx, "start", "--no-block", updateService) },
		Now:     a.now, Uptime: uptime, Synchronised: machine.This().Synchronised, Progress: func(site.UpdateStatus) {},
	}))
}

// openBoard returns the board that this is. The error says how another system is updated.
func openBoard(flags updateFlags) (*slot.Board, error) {
	board, err := slot.OpenAt(cmp.Or(flags.board, "/"))
	if fault.Is(err, fault.NotFound) {
		err = fault.Wrap(fault.NotFound, strings.TrimSuffix(updates.Advice(), "."), err)
	}
	return board, err
}

// updateSocket returns the socket of the gateway; a mistake in its configuration does not
// matter here.
func (a *app) updateSocket() string {
	if path := a.namedSocket(); path != "" {
		return path
	}
	cfg, err := a.settings()
	if err != nil {
		return serviceSocket
	}
	return cfg.Admin.Socket
}

// serviceLog returns the log of a service: the system's journal has its times.
func (a *app) serviceLog() *slog.Logger { return newServiceLog(a.stderr) }

func newServiceLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
		if at.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return at
	}}))
}

func systemctl(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, systemTimeout)
	defer cancel()
	_, err := machine.This().Run(ctx, "systemctl", args...)
	return err
}

// uptime returns how long ago the system started.
func uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// farthest is how far ahead a restart may be.
const farthest = 4 * week

// restartTime reads when the board is to restart: an hour of the site's day, the next one,
// or a moment. "" is the zero time.
func (a *app) restartTime(text string) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	now := a.now()
	if hour, err := time.Parse("15:04", text); err == nil {
		today := now.In(a.zone)
		at = time.Date(today.Year(), today.Month(), today.Day(), hour.Hour(), hour.Minute(), 0, 0, a.zone)
		if !at.After(now) {
			at = time.Date(today.Year(), today.Month(), today.Day()+1, hour.Hour(), hour.Minute(), 0, 0, a.zone)
		}
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return at, wrongUsagef("--at: %q is not a time: write it like 03:00 or 2026-11-21T03:00:00Z", text)
	}
	if at.Before(now) || at.Sub(now) > farthest {
		return at, wrongUsagef("--at: %s is not within the next four weeks", a.local(at))
	}
	return at, nil
}
