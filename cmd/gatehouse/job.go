package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gatehouse/internal/fault"
	"gatehouse/internal/gateway"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
)

// workerCommand is the worker's side.
func (a *app) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerName,
		Short:  "Work in a data directory as its owner, for other commands",
		Long:   "backup, restore, doctor and journal verify run this by themselves, as the data's owner.",
		Hidden: true,
		Args:   takes(),
		RunE:   a.does(func(ctx context.Context, _ []string) error { return a.work(ctx) }),
	}
}

// work does the job that is ordered on standard input.
func (a *app) work(ctx context.Context) error {
	var job order
	in := bufio.NewReader(a.stdin)
	if err := readLine(in, &job); err != nil {
		return wrongUsagef("gatehouse runs this by itself")
	}
	var got answer
	var err error
	switch {
	case job.Job == jobBackup:
		return a.sendStopped(ctx, job)
	case job.Restore != nil:
		got.Restored, err = a.restoreData(ctx, *job.Restore, in)
	default:
		got, err = look(ctx, job)
	}
	got.Failed = failureOf(err)
	return json.NewEncoder(a.stdout).Encode(got)
}

// takeData locks the data directory; errRuns when a gateway holds it.
func takeData(data string) (release func(), err error) {
	release, err = gateway.TakeData(data)
	if fault.Is(err, fault.Conflict) {
		err = fault.Wrap(fault.Conflict, fault.Sentence(err), errRuns)
	}
	return release, err
}

// restoreData restores the archive that follows the order.
func (a *app) restoreData(ctx context.Context, o backup.Order, archive io.Reader) (backup.Restored, error) {
	release, err := takeData(o.Data)
	if err != nil {
		return backup.Restored{}, err
	}
	defer release()
	return backup.Restore(ctx, o, sqlite.Files{Logger: a.warnings()}, archive)
}

// sendStopped sends the answer and the archive of a gateway that does not run. The
// journal has a record of that, unless the disk does not take it.
func (a *app) sendStopped(ctx context.Context, job order) error {
	answers, files := json.NewEncoder(a.stdout), sqlite.Files{Logger: a.warnings()}
	if _, missing := os.Stat(job.Path); missing == nil {
		release, err := takeData(job.Path)
		if err != nil {
			return answers.Encode(answer{Failed: failureOf(err)})
		}
		defer release()
		record := site.Record{Kind: site.KindBackupTaken, Facts: site.Facts{Origin: site.Admin, By: job.By, Detail: "of the stopped gateway"}}
		if err := files.Note(ctx, filepath.Join(job.Path, databaseFile), record); err != nil && !fault.Is(err, fault.NotFound) {
			a.complain("warning: the journal has no record of this backup: " + fault.Sentence(err))
		}
	}
	parcel, err := backup.Source{Data: job.Path, Version: version, Database: files, Now: a.now}.Stopped(ctx)
	if err != nil {
		return answers.Encode(answer{Failed: failureOf(err)})
	}
	err = answers.Encode(answer{})
	if err == nil {
		err = parcel.Write(a.stdout)
	}
	return errors.Join(err, parcel.Close())
}

// look does a job that only looks at a file. No gateway may have a database open.
func look(ctx context.Context, job order) (got answer, err error) {
	if info, err := os.Stat(job.Path); err == nil && !info.Mode().IsRegular() {
		return got, fault.New(fault.Invalid, job.Path+" is no ordinary file")
	}
	switch job.Job {
	case jobExamine:
		got.State, err = sqlite.CheckFile(ctx, job.Path)
	case jobVerify:
		got.Verdict, err = sqlite.VerifyFile(ctx, job.Path)
		if err == nil && len(job.Witnesses) > 0 {
			got.Testimony, err = sqlite.TestifyFile(ctx, job.Path, job.Witnesses)
		}
	}
	return got, err
}
