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
	passphrase    string
	keepSessions  bool
	noConfig      bool
	acceptJournal bool
}

func (a *app) restoreCommand() *cobra.Command {
	var flags restoreFlags
	cmd := a.command(&cobra.Command{
		Use:   "restore FILE",
		Short: "Make this gateway the one that a backup holds",
		Long: `Make this gateway the one that the backup FILE holds: stations and apps reconnect
without being touched. Logins end unless --keep-sessions. Stop the gateway first, and
run this as root.

The key of access tokens is in no backup: apps fetch new ones. A backup of the web
console has neither the configuration nor the gateway's own certificates. A gateway
that has certificates keeps them; another one makes new ones, which devices and
stations have to trust then.

Everything is verified before anything is replaced, and what was there is kept: data
in a folder of the data directory, files of the configuration beside the new ones. A
power cut leaves the old gateway, or the new one with some files of the old
configuration: then restore again.

FILE may also be a plain copy of a database, such as the one that an upgrade keeps:
then only the database is replaced, and no passphrase is asked for.`,
		Example: `  systemctl stop gatehouse.socket gatehouse.service
  gatehouse restore /mnt/gatehouse-2026-11-21.backup
  systemctl start gatehouse.socket gatehouse.service`,
	}, func(ctx context.Context, args []string) error { return a.restore(ctx, args[0], flags) })
	passphraseFlag(cmd, &flags.passphrase)
	cmd.Flags().BoolVar(&flags.keepSessions, "keep-sessions", false, "keep the logins of the time of the backup")
	cmd.Flags().BoolVar(&flags.noConfig, "no-config", false, "leave the configuration as it is")
	cmd.Flags().BoolVar(&flags.acceptJournal, "accept-journal", false, "take a journal of which a record was changed or removed")
	return cmd
}

// restoredGateway is what was restored, as --json shows it.
type restoredGateway struct {
	File string `json:"file"`
	Data string `json:"data"`
	backup.Restored
	*backup.Placement
}

func (a *app) restore(ctx context.Context, path string, flags restoreFlags) error {
	result, err := a.restoreFrom(ctx, path, flags)
	_, usage := errors.AsType[errUsage](err)
	switch {
	case err == nil:
		return a.result(result, func(w *lines) { a.printRestored(w, result) })
	case usage, errors.Is(err, backup.ErrBegun), errors.Is(err, context.Canceled):
		return err
	default: // adds what people want to know most of all
		text, _, _ := strings.Cut(describe(err), "\n")
		return fault.Wrap(fault.Unavailable, text+"; nothing was changed", err)
	}
}

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
	var passphrase site.Secret
	if medium.Encrypted {
		if passphrase, err = a.passphrase(ctx, flags.passphrase, false); err != nil {
			return r, err
		}
	}
	defer a.working("Restoring")()
	o := backup.Order{
		Medium: path, AcceptJournal: flags.acceptJournal, KeepSessions: flags.keepSessions, By: whoami(), Now: a.now(),
	}
	w, err := a.startWorker(ctx, order{Path: cfg.Data, Runtime: a.runtimeFolder(), Restore: &o})
	if err != nil {
		return r, err
	}
	_, draft, err := medium.Pass(ctx, passphrase, w.in)
	if flags.noConfig {
		draft = nil
	}
	r = restoredGateway{File: path, Data: cfg.Data}
	if err == nil {
		r.Placement, err = a.place(draft, cfg, backup.Stamp(o.Now))
	}
	if err == nil {
		err = backup.Confirm(w.in)
	}
	got, failed := w.finish()
	if err == nil || errors.Is(err, syscall.EPIPE) {
		err = failed // a worker that has failed reads no more
	}
	if err == nil {
		r.Restored, err = got.Restored, r.Write()
	} else if ctx.Err() != nil && !errors.Is(err, backup.ErrBegun) {
		err = ctx.Err()
	}
	return r, err
}

// place prepares the configuration of a backup. It fails unless this version accepts
// the configuration and the configuration names the data directory that is restored.
func (a *app) place(draft backup.Draft, present config.Config, stamp string) (*backup.Placement, error) {
	where := a.configuration(present)
	if len(draft.Settings()) == 0 {
		return where.Prepare(nil, nil, 0, "")
	}
	folder, err := machine.OwnerOf(filepath.Dir(where.Main))
	if err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 && folder.UID != 0 {
		return nil, fault.New(fault.Forbidden, fmt.Sprintf(
			"The configuration %s is not in a folder of root's but of the user with the number %d: restore as that user, or leave it as it is with --no-config", where.Main, folder.UID))
	}
	var files []config.File
	for _, f := range draft.Settings() {
		files = append(files, config.File{Name: strings.TrimPrefix(f.Name, "config/"), Text: f.Text})
	}
	restored, _, err := config.Lay(files, a.environ)
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fault.Wrap(fault.Invalid, "This version does not take the configuration in the backup ("+text+"): restore without it, with --no-config", err)
	}
	if restored.Data != present.Data {
		return nil, fault.New(fault.Conflict, fmt.Sprintf(
			"The configuration in the backup keeps its data in %s, and this one in %s: set GATEHOUSE_DATA to the directory that you want, or restore without the configuration, with --no-config",
			restored.Data, present.Data))
	}
	owner, err := machine.OwnerOf(present.Data)
	if service, known := machine.NamedOwner("gatehouse"); known && owner.UID == 0 {
		owner = service // of the packaged unit, which makes a new data directory its user's
	}
	if err != nil {
		return nil, err
	}
	return where.Prepare(draft, namedFiles(restored), owner.GID, stamp)
}

func (a *app) printRestored(w *lines, r restoredGateway) {
	when := r.Created
	if when.IsZero() {
		when = r.Holds.Newest
	}
	w.printf("Restored from %s: %s.", printable(r.File), a.inventory(r.Holds, when))
	if r.Revoked > 0 {
		w.printf("%s that its database did not have yet took effect.", plural(r.Revoked, "revocation"))
	}
	if r.Ended > 0 {
		w.printf("%s ended: people log in again (--keep-sessions keeps them).", plural(r.Ended, "session"))
	}
	if r.Version != "" && !r.Certificates {
		w.printf("The backup has no certificates: this gateway keeps its own, or makes new ones when it starts. Devices and stations that trust those of the backup's gateway have to trust these: see http://ADDRESS/trust.")
	}
	if r.Broken != 0 {
		w.printf("Its journal is broken at record %d.", r.Broken)
	}
	if r.Kept != "" {
		w.printf("What was there is kept in %s; remove it when you are sure.", printable(r.Kept))
	}
	if len(r.Written) > 0 {
		w.printf("The configuration was changed: %s. Former files are kept beside them, as NAME%s….", printable(strings.Join(r.Written, ", ")), backup.KeptSuffix)
	}
	if len(r.LeftOut) > 0 {
		w.printf("Not restored, because the configuration does not name them: %s.", printable(strings.Join(r.LeftOut, ", ")))
	}
	w.printf("Start the gateway: systemctl start gatehouse.socket gatehouse.service, or gatehouse serve.")
}
