package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/backup"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/gateway"
	"gatehouse/internal/site"
	"gatehouse/internal/sqlite"
)

// restoreFlags are the flags of restore.
type restoreFlags struct {
	passphrase    passphraseFlags
	keepSessions  bool
	noConfig      bool
	acceptJournal bool
}

func (a *app) restoreCommand() *cobra.Command {
	var flags restoreFlags
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make this gateway the one that a backup holds",
		Long: `Make this gateway the one that the backup FILE holds, as it was then: stations and
apps reconnect without being touched. Logins end, so that people log in once more,
unless --keep-sessions. The gateway must be stopped.

Everything is verified before anything is replaced, and what was there is kept in a
folder of the data directory. A power cut on the way leaves the old gateway or the
new one; the next start completes what had begun. Run it as root: the files become
those of the owner of the data directory.

FILE may also be a plain copy of a database, such as the one that an upgrade keeps;
then only the database is replaced, and no passphrase is asked for.`,
		Example: `  systemctl stop gatehouse.socket gatehouse.service
  gatehouse restore /media/usb/gatehouse-2026-11-21.backup
  systemctl start gatehouse.socket gatehouse.service

  gatehouse restore --keep-sessions /var/lib/gatehouse/gatehouse.db.schema1`,
		Args: exclusive(takes("FILE"), "passphrase-file", "passphrase-stdin"),
		RunE: a.does(func(ctx context.Context, args []string) error { return a.restore(ctx, args[0], flags) }),
	}
	flags.passphrase.add(cmd)
	cmd.Flags().BoolVar(&flags.keepSessions, "keep-sessions", false, "leave everyone logged in who was when the backup was taken")
	cmd.Flags().BoolVar(&flags.noConfig, "no-config", false, "leave the configuration as it is")
	cmd.Flags().BoolVar(&flags.acceptJournal, "accept-journal", false, "take a journal of which a record was changed or removed")
	return cmd
}

// restoredGateway is what was restored, as --json shows it.
type restoredGateway struct {
	File          string         `json:"file"`
	Version       string         `json:"version,omitempty"` // of gatehouse, that made the backup; absent for a plain copy
	Created       site.Timestamp `json:"created"`           // null for a plain copy
	Holds         site.Inventory `json:"holds"`
	Broken        uint64         `json:"broken,omitempty"` // seq of the first record of the journal that someone changed or removed
	SessionsEnded int            `json:"sessionsEnded"`
	Data          string         `json:"data"`
	Kept          string         `json:"kept,omitempty"` // the folder with what was there
	Configuration []string       `json:"configuration"`  // files that were written or set aside
	Aside         []string       `json:"aside"`          // where what stood there is now
}

func (a *app) restore(ctx context.Context, path string, flags restoreFlags) error {
	result, err := a.restoreFrom(ctx, path, flags)
	if err != nil {
		return unchanged(err)
	}
	return a.result(result, func(w *lines) { a.printRestored(w, result) })
}

// unchanged adds to an error what people want to know most of all, where it is so.
func unchanged(err error) error {
	if _, usage := errors.AsType[errUsage](err); usage || errors.Is(err, backup.ErrBegun) || errors.Is(err, context.Canceled) {
		return err
	}
	kind := fault.KindOf(err)
	if kind == fault.Internal {
		kind = fault.Unavailable // no gateway's log says more
	}
	text, _, _ := strings.Cut(describe(err), "\n")
	return fault.Wrap(kind, strings.TrimSuffix(text, nothingChanged)+nothingChanged, err)
}

const nothingChanged = "; nothing was changed"

func (a *app) restoreFrom(ctx context.Context, path string, flags restoreFlags) (r restoredGateway, err error) {
	medium, err := backup.Open(path)
	if err != nil {
		return r, err
	}
	defer func() { _ = medium.Close() }()
	cfg, err := a.settings()
	if err != nil {
		return r, err
	}
	release, abandon, err := gateway.TakeData(cfg.Data, a.warnings())
	if err != nil {
		return r, running(cfg.Data, err)
	}
	defer func() {
		if err != nil && !errors.Is(err, backup.ErrBegun) {
			abandon()
		} else {
			release()
		}
	}()
	options := backup.Options{Data: cfg.Data, Database: sqlite.Files{Logger: a.warnings()}, AcceptJournal: flags.acceptJournal}
	if medium.Encrypted {
		if options.Passphrase, err = a.passphrase(ctx, flags.passphrase, false); err != nil {
			return r, err
		}
	}
	staged, err := backup.Stage(ctx, medium, options)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, staged.Discard()) }()
	return a.commit(ctx, medium, staged, cfg, flags)
}

// running says how to stop the gateway that holds the data directory.
func running(data string, err error) error {
	if !fault.Is(err, fault.Conflict) {
		return err
	}
	return fault.Wrap(fault.Conflict, "A gateway is running on "+data+
		": stop it with systemctl stop gatehouse.socket gatehouse.service, or with Ctrl-C where it runs in a terminal, and restore then", err)
}

// commit puts in place what was verified.
func (a *app) commit(ctx context.Context, medium *backup.Medium, staged *backup.Staged, cfg config.Config, flags restoreFlags) (restoredGateway, error) {
	r := restoredGateway{
		File: medium.Path, Version: staged.Version, Created: staged.Created, Holds: staged.Holds, Broken: staged.Journal.Broken, Data: cfg.Data,
		Configuration: []string{}, Aside: []string{},
	}
	terms := backup.Terms{KeepSessions: flags.keepSessions, By: whoami(), Now: a.now()}
	if staged.Config() != "" && !flags.noConfig {
		if err := a.checkRestored(staged.Config(), cfg); err != nil {
			return r, err
		}
		where := a.configuration(cfg)
		terms.Configuration = &where
	}
	done, err := staged.Commit(ctx, terms)
	if err != nil {
		return r, err
	}
	r.SessionsEnded, r.Kept = done.Ended, done.Kept
	r.Configuration, r.Aside = list(done.Written), list(done.Aside)
	return r, nil
}

// checkRestored sees whether this version takes the configuration in the backup, and
// whether it keeps its data where the data is restored to.
func (a *app) checkRestored(path string, present config.Config) error {
	restored, err := config.Load(path, a.environ)
	if err != nil {
		text, _, _ := strings.Cut(strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""), "\n")
		return fault.Wrap(fault.Invalid, "This version does not take the configuration in the backup ("+text+"): restore without it, with --no-config", err)
	}
	if restored.Data != present.Data {
		return fault.New(fault.Conflict, fmt.Sprintf(
			"The configuration in the backup keeps its data in %s, and this one in %s: set GATEHOUSE_DATA to the directory that you want, or restore without the configuration, with --no-config",
			restored.Data, present.Data))
	}
	return nil
}

func (a *app) printRestored(w *lines, r restoredGateway) {
	when := r.Created
	if when.IsZero() {
		when = r.Holds.Newest
	}
	w.printf("Restored from %s: %s.", printable(r.File), a.inventory(r.Holds, when))
	if r.SessionsEnded > 0 {
		w.printf("%s ended: people log in again (--keep-sessions keeps them).", plural(r.SessionsEnded, "session"))
	}
	if r.Broken != 0 {
		w.printf("Its journal is broken at record %d.", r.Broken)
	}
	if r.Kept != "" {
		w.printf("What was there is kept in %s; remove it when you are sure.", r.Kept)
	}
	if len(r.Configuration) > 0 {
		w.printf("The configuration was changed: %s.", printable(strings.Join(r.Configuration, ", ")))
	}
	if len(r.Aside) > 0 {
		w.printf("What stood there is kept: %s.", printable(strings.Join(r.Aside, ", ")))
	}
	w.printf("Start the gateway: systemctl start gatehouse.socket gatehouse.service, or gatehouse serve.")
}
