package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// databaseFile is the gateway's database within its data directory.
const databaseFile = "gatehouse.db"

func (a *app) verifyCommand() *cobra.Command {
	var flags witnessFlags
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check that no record of the journal was changed or removed",
		Long: `Check the chain of hashes over the whole journal, and name the first record that
was changed or removed. With FILE, check the database of a stopped gateway or a
copy of one. Without it, ask the running gateway, or if none runs, check the
database in its data directory. Exit status 1 means that the journal is broken, or
that a witness contradicts it.

Someone who can write to the file could compute all hashes anew. So the head of the
chain, the number of the newest record and its hash, is kept elsewhere too: at each
start and once a day in the system log, in the manifest of each backup, and in the
status that the cloud's application receives. Verify compares the journal with those
of the system log where it may be read (not for FILE), with the backup that --backup
names, and with any that --witness names.`,
		Example: `  gatehouse journal verify
  gatehouse journal verify --backup /media/usb/gatehouse-2026-11-21.backup
  gatehouse journal verify /mnt/copy/gatehouse.db`,
		Args: exclusive(takes("[FILE]"), "passphrase-file", "passphrase-stdin"),
		RunE: a.does(func(ctx context.Context, args []string) error {
			witnesses, err := a.witnesses(ctx, flags, len(args) == 0)
			if err != nil {
				return err
			}
			verdict, err := a.verify(ctx, args, witnesses)
			if err != nil {
				return err
			}
			return a.printVerdict(verdict)
		}),
	}
	cmd.Flags().StringArrayVar(&flags.heads, "witness", nil, "compare with this head, `SEQ:HASH`; may be given several times")
	cmd.Flags().StringVar(&flags.backup, "backup", "", "compare with the manifest of the backup `FILE`")
	flags.passphrase.add(cmd)
	return cmd
}

func (a *app) verify(ctx context.Context, args []string, witnesses []journal.Witness) (verdict adminapi.Verdict, err error) {
	if len(args) == 1 {
		return a.verdictOf(ctx, args[0], witnesses)
	}
	err = a.call(func(gw *client.Client) error {
		if verdict, err = gw.VerifyJournal(ctx); err == nil && len(witnesses) > 0 {
			verdict.Witnesses, err = gw.Testify(ctx, witnesses)
		}
		return err
	})
	if !fault.Is(err, fault.Unavailable) || a.namedSocket() != "" {
		return verdict, err
	}
	cfg, unset := a.settings()
	if unset != nil {
		return verdict, unset
	}
	stopped, unread := a.verdictOf(ctx, filepath.Join(cfg.Data, databaseFile), witnesses)
	if unread != nil {
		return verdict, errors.Join(err, unread)
	}
	return stopped, nil
}

// verdictOf checks the journal in a file that no gateway has open.
func (a *app) verdictOf(ctx context.Context, path string, witnesses []journal.Witness) (adminapi.Verdict, error) {
	got, err := a.do(ctx, order{Job: jobVerify, Path: path, Witnesses: witnesses})
	v := got.Verdict
	return adminapi.Verdict{
		Sound: v.Broken == 0, Records: v.Records, First: v.First, Last: v.Last, Lost: v.Lost, Broken: v.Broken, Why: v.Why,
		Witnesses: got.Testimony,
	}, err
}

func (a *app) printVerdict(v adminapi.Verdict) error {
	failed := contradicted(v)
	if !v.Sound {
		failed = fmt.Errorf("the journal is broken at record %d: %s; keep a copy of the database as evidence, and find out who could write to it", v.Broken, v.Why)
	}
	if a.json {
		return errors.Join(a.document(v), failed)
	}
	err := a.result(v, func(w *lines) {
		if !v.Sound {
			return
		}
		what := "journal"
		if failed != nil {
			what = "chain alone"
		}
		w.printf("The %s is sound: %s checked (%d to %d).", what, plural(v.Records, "record"), v.First, v.Last)
		if v.Lost > 0 {
			w.printf("%d of these numbers are missing: the database was damaged, see the records of the kind records-lost.", v.Lost)
		}
		printWitnesses(w, v.Witnesses)
	})
	return errors.Join(err, failed)
}
