package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
)

// The jobs of a worker that only look at the file Path; doctor and "journal verify" order
// them. No gateway may have a database of jobExamine or jobVerify open.
const (
	jobExamine = "examine" // what is in a database
	jobVerify  = "verify"  // the chain and the witnesses; also for a copy of a database
)

// asOwner does a job that only looks at a file. If the caller is root and the file is not
// root's, a worker does it as the owner (see [machine.OwnerOf]) and is killed when ctx ends;
// else the caller does it itself. A disk that hangs may hold it beyond ctx.
func (a *app) asOwner(ctx context.Context, job order) (answer, error) {
	owner, err := machine.OwnerOf(job.Path)
	if err != nil {
		return answer{}, err
	}
	if os.Geteuid() != 0 || owner.UID == 0 {
		return look(ctx, job)
	}
	job.Data = job.Path // decides whose the worker is
	w, err := a.startWorker(job)
	if err != nil {
		return answer{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = w.cmd.Process.Kill() })()
	got, err := w.listen()
	if ctx.Err() != nil {
		return got, ctx.Err()
	}
	_ = w.finish() // its answer is all that counts
	if errors.Is(err, fs.ErrPermission) {
		err = fault.Wrap(fault.Forbidden, fmt.Sprintf("User %d, who owns %s, must be able to read it and to enter its folder: move it or give it to root with chown", owner.UID, job.Path), err)
	}
	return got, err
}

// look does a job that only looks at a file.
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

// look answers a job that only looks at a file; what was found counts with an error too.
func (s *shift) look(ctx context.Context, job order) error {
	got, err := look(ctx, job)
	got.Failed = failureOf(err)
	return s.answer(got)
}

// examineDatabase implements the Database of [doctor.Config].
func (a *app) examineDatabase(ctx context.Context, path string) (sqlite.FileState, error) {
	got, err := a.asOwner(ctx, order{Job: jobExamine, Path: path})
	return got.State, err
}

// verifyFile checks the journal of a file and compares it with witnesses.
func (a *app) verifyFile(ctx context.Context, path string, witnesses []journal.Witness) (answer, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return answer{}, fmt.Errorf("finding the database: %w", err)
	}
	return a.asOwner(ctx, order{Job: jobVerify, Path: path, Witnesses: witnesses})
}
