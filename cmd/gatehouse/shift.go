package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
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

// work does one job.
func (a *app) work(ctx context.Context) error {
	s := &shift{app: a, answers: json.NewEncoder(a.stdout), orders: make(chan order)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // lives as long as the process
		defer cancel() // standard input has ended: the job is cancelled
		defer close(s.orders)
		for in := json.NewDecoder(a.stdin); ; {
			var next order
			if in.Decode(&next) != nil {
				return
			}
			select {
			case s.orders <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	job := <-s.orders
	var err error
	switch job.Job {
	case jobBackup:
		err = s.backup(ctx, job)
	case jobRestore:
		err = s.restore(ctx, job)
	case jobComplete:
		err = s.complete(job)
	case jobExamine, jobVerify:
		return s.look(ctx, job)
	default:
		return wrongUsagef("gatehouse runs this by itself")
	}
	if err != nil {
		return s.answer(answer{Failed: failureOf(err)})
	}
	return nil
}

// shift is one job of a worker.
type shift struct {
	*app
	answers *json.Encoder
	orders  chan order // what follows the job; closed when there is no more
}

func (s *shift) answer(got answer) error { return s.answers.Encode(got) }

// takeData locks the data directory; errRuns when a gateway holds it. The process that
// started the worker handles a configuration that waits there.
func takeData(data string) (release func(), err error) {
	release, err = gateway.TakeData(data, slog.New(slog.DiscardHandler))
	if fault.Is(err, fault.Conflict) {
		err = fault.Wrap(fault.Conflict, fault.Sentence(err), errRuns)
	}
	return release, err
}

// backup writes the archive of a gateway that does not run.
func (s *shift) backup(ctx context.Context, job order) error {
	source := backup.Source{Data: job.Data, Version: version, Database: sqlite.Files{Logger: s.warnings()}, Now: s.now}
	if _, err := os.Stat(job.Data); err != nil {
		_, err := source.Stopped(ctx) // its error names what is missing
		return err
	}
	release, err := takeData(job.Data)
	if err != nil {
		return err
	}
	defer release()
	path := filepath.Join(job.Data, databaseFile)
	if _, err := os.Stat(path); err == nil {
		record := site.Record{Kind: site.KindBackupTaken, Facts: site.Facts{Origin: site.Admin, By: job.By, Detail: "of the stopped gateway"}}
		if err := (sqlite.Files{Logger: s.warnings()}).Note(ctx, path, record); err != nil {
			s.complain("warning: the journal has no record of this backup: " + fault.Sentence(err))
		}
	}
	parcel, err := source.Stopped(ctx)
	if err != nil {
		return err
	}
	if err := s.answer(answer{}); err != nil {
		return errors.Join(err, parcel.Close())
	}
	to := os.NewFile(dataFile, "the archive")
	return errors.Join(parcel.Write(to), parcel.Close(), to.Close())
}

// restore unpacks the archive of its job and puts the data in place when it is
// ordered to.
func (s *shift) restore(ctx context.Context, job order) (err error) {
	release, err := takeData(job.Data)
	if err != nil {
		return err
	}
	defer release()
	staged, err := backup.Stage(ctx, job.Name, os.NewFile(dataFile, job.Name), backup.Options{Data: job.Data, Database: sqlite.Files{Logger: s.warnings()}, AcceptJournal: job.AcceptJournal})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, staged.Discard()) }()
	if err := s.answer(answer{Manifest: staged.Manifest, Broken: staged.Journal.Broken}); err != nil {
		return err
	}
	next, more := <-s.orders
	if !more || next.Commit == nil {
		return nil
	}
	done, err := staged.Commit(ctx, *next.Commit)
	if err == nil {
		err = s.answer(answer{Restored: done})
	}
	if err != nil {
		return err
	}
	return s.forget(job.Data)
}

// complete completes an interrupted restore of the data, and answers which
// configuration waits for it.
func (s *shift) complete(job order) error {
	if _, err := os.Stat(job.Data); errors.Is(err, fs.ErrNotExist) {
		return s.answer(answer{})
	}
	release, err := takeData(job.Data)
	if err != nil {
		return err
	}
	defer release()
	waits, err := backup.Waiting(job.Data)
	if err != nil {
		return err
	}
	if err := s.answer(answer{Waits: waits}); err != nil {
		return err
	}
	return s.forget(job.Data)
}

// forget ends a restore whose configuration is in place, if it is ordered to.
func (s *shift) forget(data string) error {
	if next, more := <-s.orders; !more || !next.Forget {
		return nil
	}
	if err := backup.Forget(data); err != nil {
		return err
	}
	return s.answer(answer{})
}
