package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

// backupFlags are the flags of backup.
type backupFlags struct {
	passphrase passphraseFlags
	force      bool
	noConfig   bool
}

func (a *app) backupCommand() *cobra.Command {
	var flags backupFlags
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything that makes this gateway itself to an encrypted file",
		Long: `Write everything that makes this gateway itself to FILE, encrypted with a
passphrase: its identity, accounts, stations and their secrets, grants, sessions,
journal, keys and certificates, and the configuration. A blank board that restores
it is the same gateway. Doors go on opening meanwhile. Where no gateway runs, its
data directory is read directly, which works on a full or failing disk too.

Run it as root, to read all of the configuration. The passphrase comes from
--passphrase-file, --passphrase-stdin or GATEHOUSE_PASSPHRASE; else the terminal
offers a generated one. Your own needs at least 16 characters. Keep it apart from the
file: without it the backup cannot be opened.
FILE is - for standard output.`,
		Example: `  gatehouse backup /media/usb/gatehouse-2026-11-21.backup
  gatehouse backup --passphrase-file /root/backup.passphrase --force /mnt/nas/gatehouse.backup
  gatehouse backup - | ssh nas.local 'cat > gatehouse.backup'`,
		Args: exclusive(takes("FILE"), "passphrase-file", "passphrase-stdin"),
		RunE: a.does(func(ctx context.Context, args []string) error { return a.backup(ctx, args[0], flags) }),
	}
	flags.passphrase.add(cmd)
	cmd.Flags().BoolVar(&flags.force, "force", false, "replace FILE if it exists")
	cmd.Flags().BoolVar(&flags.noConfig, "no-config", false, "leave the configuration out")
	return cmd
}

// backedUp is what was written, as --json shows it.
type backedUp struct {
	File          string         `json:"file"`
	Bytes         int64          `json:"bytes"`
	Created       site.Timestamp `json:"created"`
	Online        bool           `json:"online"` // whether the gateway runs
	Holds         site.Inventory `json:"holds"`
	Configuration []string       `json:"configuration"`
	LeftOut       []string       `json:"leftOut"` // files that the configuration names, outside of its folder
}

func (a *app) backup(ctx context.Context, path string, flags backupFlags) error {
	if err := a.checkOutput(path, flags.force); err != nil {
		return err
	}
	cfg, err := a.settings()
	if err != nil {
		return err
	}
	result := backedUp{File: path, Configuration: []string{}, LeftOut: []string{}}
	var files []backup.Loaded
	if !flags.noConfig {
		where := a.configuration(cfg)
		if files, err = where.Load(); err != nil {
			return err
		}
		for _, f := range files {
			result.Configuration = append(result.Configuration, f.Path)
		}
		result.LeftOut = list(where.Outside())
	}
	passphrase, err := a.passphrase(ctx, flags.passphrase, true)
	if err != nil {
		return err
	}
	if err := backup.JudgePassphrase(passphrase); err != nil {
		return err
	}
	if err := a.write(ctx, cfg, passphrase, files, &result); err != nil {
		return err
	}
	return a.printBackup(result)
}

// checkOutput sees beforehand whether the result can go where it shall.
func (a *app) checkOutput(path string, force bool) error {
	if path != "-" {
		return backup.CheckOutput(path, force)
	}
	out, ok := a.stdout.(*os.File)
	switch {
	case a.json:
		return wrongUsagef("standard output is for the backup: --json and - exclude each other")
	case ok && term.IsTerminal(int(out.Fd())):
		return wrongUsagef("standard output is a terminal: name a file, or pipe the backup to a program")
	}
	return nil
}

// configuration returns where the configuration is that the flags and the environment
// name.
func (a *app) configuration(cfg config.Config) backup.Configuration {
	return backup.Configuration{Main: a.mainConfig(), More: namedFiles(cfg)}
}

// mainConfig is the main file of the configuration, whether it is there or not.
func (a *app) mainConfig() string {
	folder := filepath.Dir(config.PartsFolder(a.config, a.environ))
	return cmp.Or(a.config, a.variable("GATEHOUSE_CONFIG"), filepath.Join(folder, "gatehouse.toml"))
}

// namedFiles lists the files that a configuration names.
func namedFiles(cfg config.Config) (paths []string) {
	for _, path := range []string{cfg.TLS.Certificate, cfg.TLS.Key, cfg.Cloud.PasswordFile, cfg.Cloud.CA, cfg.Cloud.Certificate, cfg.Cloud.Key} {
		if filepath.IsAbs(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// data returns the archive of the gateway's data: from the gateway where one runs, else
// from its files.
func (a *app) data(ctx context.Context, cfg config.Config, result *backedUp) (body io.ReadCloser, err error) {
	running := client.New(cmp.Or(a.namedSocket(), cfg.Admin.Socket))
	body, err = running.Backup(ctx)
	if err == nil {
		result.Online = true
		return body, nil
	}
	running.Close()
	if !fault.Is(err, fault.Unavailable) || a.namedSocket() != "" {
		return nil, err
	}
	w, unread := a.startWorker(ctx, order{Job: jobBackup, Path: cfg.Data, By: whoami()})
	if unread != nil {
		return nil, unread
	}
	if _, unread = w.answer(); unread == nil {
		return w, nil
	}
	_ = w.Close() // it has reported why
	if errors.Is(unread, errRuns) {
		return nil, err // the gateway's answer counts
	}
	return nil, unread
}

// warnings is a log for what a command does besides its result.
func (a *app) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// whoami returns the name of the user who runs this, for the journal.
func whoami() string {
	name := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name += " (" + u.Username + ")"
	}
	return name
}

// write writes the encrypted file, or standard output.
func (a *app) write(ctx context.Context, cfg config.Config, passphrase site.Secret, files []backup.Loaded, result *backedUp) error {
	if result.File == "-" {
		return a.seal(ctx, a.stdout, cfg, passphrase, files, result)
	}
	out, err := backup.Create(result.File)
	if err != nil {
		return err
	}
	if err := a.seal(ctx, out, cfg, passphrase, files, result); err != nil {
		return errors.Join(err, out.Discard())
	}
	result.Bytes, err = out.Keep()
	return err
}

// seal gets the data and writes it encrypted.
func (a *app) seal(ctx context.Context, to io.Writer, cfg config.Config, passphrase site.Secret, files []backup.Loaded, result *backedUp) error {
	data, err := a.data(ctx, cfg, result)
	if err != nil {
		return err
	}
	m, err := backup.Seal(ctx, to, passphrase, data, files)
	result.Created, result.Holds = m.Created, m.Holds
	return errors.Join(err, data.Close())
}

// printBackup prints what was written; where the backup has gone to standard output, on
// standard error.
func (a *app) printBackup(r backedUp) error {
	if len(r.LeftOut) > 0 {
		a.complain("warning: not in the backup, because they lie outside of the folder of the configuration: " + strings.Join(r.LeftOut, ", "))
	}
	human := func(w *lines) {
		if r.File != "-" {
			w.printf("The backup is written: %s, %s.", printable(r.File), machine.Size(r.Bytes))
		}
		w.printf("It is of %s.", a.inventory(r.Holds, r.Created))
		if len(r.Configuration) > 0 {
			w.printf("With the configuration: %s.", printable(strings.Join(r.Configuration, ", ")))
		}
		w.printf("Keep the passphrase apart from it: without the passphrase it cannot be opened.")
	}
	if r.File == "-" {
		w := &lines{w: a.stderr}
		human(w)
		return w.err
	}
	return a.result(r, human)
}

// inventory returns in words what a gateway holds.
func (a *app) inventory(h site.Inventory, when site.Timestamp) string {
	at := ""
	if !when.IsZero() {
		at = ", as of " + a.local(when.Time.Truncate(time.Second))
	}
	return fmt.Sprintf("gateway %s%s: %s, %s, %s, a journal of %s (%d to %d)", printable(string(h.Gateway)), at,
		plural(h.Accounts, "account"), plural(h.Stations, "station"), plural(h.Sessions, "session"),
		plural(h.Records, "record"), h.First, h.Last)
}
