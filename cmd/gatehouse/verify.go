package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"gatehouse/internal/adminapi"
	"gatehouse/internal/adminapi/client"
	"gatehouse/internal/fault"
	"gatehouse/internal/sqlite"
)

// databaseFile is the gateway's database within its data directory.
const databaseFile = "gatehouse.db"

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check that no record of the journal was changed or removed",
		Long: `Check the chain of hashes over the whole journal, and name the first record that
was changed or removed. With FILE, check the database of a stopped gateway or a
copy of one. Without it, ask the running gateway, or if none runs, check the
database in its data directory. Exit status 1 means that the journal is broken.`,
		Example: `  gatehouse journal verify
  gatehouse journal verify /mnt/copy/gatehouse.db`,
		Args: takes("[FILE]"),
		RunE: a.does(func(ctx context.Context, args []string) error {
			verdict, err := a.verify(ctx, args)
			if err != nil {
				return err
			}
			return a.printVerdict(verdict)
		}),
	}
}

func (a *app) verify(ctx context.Context, args []string) (verdict adminapi.Verdict, err error) {
	if len(args) == 1 {
		return verifyFile(ctx, args[0])
	}
	err = a.call(func(gw *client.Client) error {
		verdict, err = gw.VerifyJournal(ctx)
		return err
	})
	if !fault.Is(err, fault.Unavailable) || a.namedSocket() != "" {
		return verdict, err
	}
	cfg, unset := a.settings()
	if unset != nil {
		return verdict, unset
	}
	stopped, unread := verifyFile(ctx, filepath.Join(cfg.Data, databaseFile))
	if unread != nil {
		return verdict, errors.Join(err, unread)
	}
	return stopped, nil
}

func verifyFile(ctx context.Context, path string) (adminapi.Verdict, error) {
	v, err := sqlite.VerifyFile(ctx, path)
	return adminapi.Verdict{
		Sound: v.Broken == 0, Records: v.Records, First: v.First, Last: v.Last, Lost: v.Lost, Broken: v.Broken, Why: v.Why,
	}, err
}

func (a *app) printVerdict(v adminapi.Verdict) error {
	if v.Sound {
		return a.result(v, func(w *lines) {
			w.printf("The journal is sound: %s checked (%d to %d).", plural(v.Records, "record"), v.First, v.Last)
			if v.Lost > 0 {
				w.printf("%d of these numbers are missing: the database was damaged, as records of the kind records-lost say.", v.Lost)
			}
		})
	}
	if a.json {
		if err := a.document(v); err != nil {
			return err
		}
	}
	return fmt.Errorf("the journal is broken at record %d: %s; keep a copy of the database as evidence, and find out who could write to it", v.Broken, v.Why)
}
