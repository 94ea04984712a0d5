package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
	"github.com/spf13/cobra"
)

// backupFlags are the flags of backup.
type backupFlags struct {
	passphrase string
	force      bool
	noConfig   bool
}

func (a *app) backupCommand() *cobra.Command {
	var flags backupFlags
	cmd := a.command(&cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything that makes this gateway itself to an encrypted file",
		Long: `Write everything that makes this gateway itself to FILE, encrypted with a
passphrase: its identity, accounts, stations and their secrets, grants, sessions,
journal, keys and certificates, and the configuration. A blank board that restores
it is the same gateway. Doors go on opening meanwhile. Where no gateway runs, its
data directory is read directly, which works on a full or failing disk too.

Run it as root, to read all of the configuration. The passphrase comes from
--passphrase-file or GATEHOUSE_PASSPHRASE; else the terminal offers a generated one.
Your own needs at least 16 characters. Keep it apart from the file: without it the
backup cannot be opened.`,
		Example: `  gatehouse backup /mnt/gatehouse-2026-11-21.backup
  gatehouse backup --passphrase-file /root/backup.passphrase --force /mnt/nas/gatehouse.backup`,
	}, func(ctx context.Context, args []string) error { return a.backup(ctx, args[0], flags) })
	passphraseFlag(cmd, &flags.passphrase)
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
	out, err := backup.Create(path, flags.force)
	if err != nil {
		return err
	}
	if err := a.seal(ctx, out, cfg, flags.passphrase, files, &result); err != nil {
		return errors.Join(err, out.Discard())
	}
	if result.Bytes, err = out.Keep(); err != nil {
		return err
	}
	if len(result.LeftOut) > 0 {
		a.complain("warning: not in the backup, because they lie outside of the folder of the configuration: " + strings.Join(result.LeftOut, ", "))
	}
	return a.result(result, func(w *lines) {
		w.printf("The backup is written: %s, %s.", printable(path), machine.Size(result.Bytes))
		w.printf("It is of %s.", a.inventory(result.Holds, result.Created))
		if len(result.Configuration) > 0 {
			w.printf("With the configuration: %s.", printable(strings.Join(result.Configuration, ", ")))
		}
		w.printf("Keep the passphrase apart from it: without the passphrase it cannot be opened.")
	})
}

// seal asks for the passphrase, gets the data and writes it encrypted.
func (a *app) seal(ctx context.Context, to io.Writer, cfg config.Config, passphraseFile string, files []backup.Loaded, result *backedUp) error {
	passphrase, err := a.passphrase(ctx, passphraseFile, true)
	if err == nil {
		err = backup.JudgePassphrase(passphrase)
	}
	if err != nil {
		return err
	}
	defer a.working("Writing the backup")()
	data, err := a.data(ctx, cfg, result)
	if err != nil {
		return err
	}
	m, err := backup.Seal(ctx, to, passphrase, data, files)
	result.Created, result.Holds = m.Created, m.Holds
	return errors.Join(err, data.Close())
}

// configuration returns where the configuration is that the flags and the environment
// name.
func (a *app) configuration(cfg config.Config) backup.Configuration {
	return backup.Configuration{Main: config.MainFile(a.config, a.environ), More: namedFiles(cfg)}
}

// namedFiles lists the files that a configuration names.
func namedFiles(cfg config.Config) []string {
	return slices.DeleteFunc([]string{
		cfg.TLS.Certificate, cfg.TLS.Key, cfg.Cloud.PasswordFile, cfg.Cloud.CA, cfg.Cloud.Certificate, cfg.Cloud.Key,
		cfg.Homeassistant.PasswordFile, cfg.Homeassistant.CA,
	}, func(path string) bool { return !filepath.IsAbs(path) })
}

// data returns the archive of the gateway's data: from the gateway where one runs, else
// from its files.
func (a *app) data(ctx context.Context, cfg config.Config, result *backedUp) (body io.ReadCloser, err error) {
	body, err = client.New(cmp.Or(a.namedSocket(), cfg.Admin.Socket)).Backup(ctx)
	result.Online = err == nil
	if !fault.Is(err, fault.Unavailable) || a.namedSocket() != "" {
		return body, err
	}
	w, err := a.startWorker(ctx, order{Job: jobBackup, Path: cfg.Data, Runtime: a.runtimeFolder()})
	if err != nil {
		return nil, err
	}
	if _, err = w.answer(); err != nil {
		_ = w.Close() // it has reported why
		return nil, err
	}
	return w, nil
}

// whoami returns the name of the system user who runs this.
func whoami() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
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
