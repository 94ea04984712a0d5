package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/site"
)

// restoreFlags are the flags of restore.
type restoreFlags struct {
	passphrase    passphraseFlags
	keepSessions  bool
	noConfig      bool
	acceptJournal bool
	complete      bool
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
new one; the next start completes what had begun. Run it as root: it works in the
data directory as the owner of it. Of the configuration come back gatehouse.toml,
conf.d, credentials, and files that it names in a folder called gatehouse.

FILE may also be a plain copy of a database, such as the one that an upgrade keeps;
then only the database is replaced, and no passphrase is asked for.`,
		Example: `  systemctl stop gatehouse.socket gatehouse.service
  gatehouse restore /media/usb/gatehouse-2026-11-21.backup
  systemctl start gatehouse.socket gatehouse.service

  gatehouse restore --keep-sessions /var/lib/gatehouse/gatehouse.db.schema1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.complete {
				return takes()(cmd, args)
			}
			return exclusive(takes("FILE"), "passphrase-file", "passphrase-stdin")(cmd, args)
		},
		RunE: a.does(func(ctx context.Context, args []string) error {
			if flags.complete {
				return a.completeRestore()
			}
			return a.restore(ctx, args[0], flags)
		}),
	}
	cmd.Flags().BoolVar(&flags.complete, "complete", false, "only complete what a power cut has interrupted, as the service does when it starts")
	flags.passphrase.add(cmd)
	cmd.Flags().BoolVar(&flags.keepSessions, "keep-sessions", false, "keep the logins of the time of the backup")
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
	Aside         []string       `json:"aside"`          // where the former files are now
	LeftOut       []string       `json:"leftOut"`        // names in the backup that are no files of a configuration
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
		kind = fault.Unavailable // no gateway's log has more
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
	if err := a.completeRestore(); err != nil {
		return r, running("the data directory", err)
	}
	cfg, err := a.settings()
	if err != nil {
		return r, err
	}
	if err := makeData(cfg.Data); err != nil {
		return r, err
	}
	staged, err := a.stage(ctx, medium, cfg, flags)
	if err == nil {
		r, err = a.commit(ctx, medium, staged, cfg, flags)
		err = errors.Join(err, staged.finish())
	}
	return r, running(cfg.Data, err)
}

// stagedRestore is what a worker has unpacked, with its configuration.
type stagedRestore struct {
	*worker
	answer
	draft backup.Draft
}

// stage starts a worker that unpacks and verifies a medium.
func (a *app) stage(ctx context.Context, medium *backup.Medium, cfg config.Config, flags restoreFlags) (s *stagedRestore, err error) {
	var passphrase site.Secret
	if medium.Encrypted {
		if passphrase, err = a.passphrase(ctx, flags.passphrase, false); err != nil {
			return nil, err
		}
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("unpacking the backup: %w", err)
	}
	w, err := a.startWorker(order{Job: jobRestore, Data: cfg.Data, Name: medium.Path, AcceptJournal: flags.acceptJournal}, from)
	_ = from.Close() // the worker has it
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	s = &stagedRestore{worker: w}
	s.draft, err = medium.Pass(ctx, passphrase, to)
	_ = to.Close()
	if err == nil || errors.Is(err, syscall.EPIPE) {
		s.answer, err = w.listen() // a worker that has failed reads no more, and reports why
	}
	if err != nil {
		_ = w.finish() // it has reported why
		return nil, err
	}
	return s, nil
}

// running adds how to stop the gateway that holds the data directory.
func running(data string, err error) error {
	if !errors.Is(err, errRuns) {
		return err
	}
	return fault.Wrap(fault.Conflict, "A gateway is running on "+data+
		": stop it with systemctl stop gatehouse.socket gatehouse.service, or with Ctrl-C where it runs in a terminal, and restore then", err)
}

// commit puts in place what was verified.
func (a *app) commit(ctx context.Context, medium *backup.Medium, staged *stagedRestore, cfg config.Config, flags restoreFlags) (r restoredGateway, err error) {
	m := staged.Manifest
	r = restoredGateway{
		File: medium.Path, Version: m.Version, Created: m.Created, Holds: m.Holds, Broken: staged.Broken, Data: cfg.Data,
		Configuration: []string{}, Aside: []string{}, LeftOut: []string{},
	}
	var placement *backup.Placement
	terms := backup.Terms{KeepSessions: flags.keepSessions, By: whoami(), Now: a.now()}
	if !staged.draft.Empty() && !flags.noConfig {
		if placement, err = a.place(staged.draft, cfg, terms); err != nil {
			return r, err
		}
		r.LeftOut = list(placement.LeftOut)
	}
	done, err := placement.Carry(ctx, staged, terms)
	if err != nil {
		if placement != nil && !errors.Is(err, backup.ErrBegun) {
			err = errors.Join(err, placement.Discard())
		}
		return r, err
	}
	r.SessionsEnded, r.Kept = done.Ended, done.Kept
	written, aside := placement.Written()
	r.Configuration, r.Aside = list(written), list(aside)
	return r, nil
}

// place prepares the configuration of a backup. It fails unless this version accepts
// the configuration and the configuration names the data directory that is restored.
func (a *app) place(draft backup.Draft, present config.Config, terms backup.Terms) (*backup.Placement, error) {
	where := a.configuration(present)
	if err := ownConfiguration(where); err != nil {
		return nil, err
	}
	restored, err := a.readDraft(draft)
	if err != nil {
		return nil, err
	}
	if restored.Data != present.Data {
		return nil, fault.New(fault.Conflict, fmt.Sprintf(
			"The configuration in the backup keeps its data in %s, and this one in %s: set GATEHOUSE_DATA to the directory that you want, or restore without the configuration, with --no-config",
			restored.Data, present.Data))
	}
	data, err := filepath.Abs(present.Data)
	if err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	owner, err := machine.OwnerOf(data)
	if err != nil {
		return nil, err
	}
	return where.Prepare(draft, data, namedFiles(restored), owner.GID, backup.Stamp(terms.Now))
}

// readDraft reads the configuration of a backup in a folder of its own.
func (a *app) readDraft(draft backup.Draft) (config.Config, error) {
	folder, err := os.MkdirTemp("", "gatehouse-restore-")
	if err != nil {
		return config.Config{}, fmt.Errorf("reading the configuration in the backup: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path, err := draft.Write(folder)
	if err != nil {
		return config.Config{}, err
	}
	restored, err := config.Load(path, a.environ)
	if err != nil {
		text, _, _ := strings.Cut(strings.ReplaceAll(err.Error(), folder+"/", ""), "\n")
		return restored, fault.Wrap(fault.Invalid, "This version does not take the configuration in the backup ("+text+"): restore without it, with --no-config", err)
	}
	return restored, nil
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
		w.printf("The former files are kept: %s.", printable(strings.Join(r.Aside, ", ")))
	}
	if len(r.LeftOut) > 0 {
		w.printf("Not restored, because the configuration does not name them: %s.", printable(strings.Join(r.LeftOut, ", ")))
	}
	w.printf("Start the gateway: systemctl start gatehouse.socket gatehouse.service, or gatehouse serve.")
}
