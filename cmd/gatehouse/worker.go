package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/gateway"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// The data directory belongs to another user, so root does not work there: a process of
// that user does, the worker, for one job. Its order is a line of JSON on its standard
// input, its answer a line of JSON on its standard output. Behind the order of a restore
// and the answer of a backup follows an archive. Root keeps to the configuration and the
// file of the backup, and believes the worker nothing that it acts on.

// workerName is the hidden command that runs as the owner of the data directory.
const workerName = "data-worker"

// The jobs of a worker.
const (
	jobBackup  = "backup"  // the archive of a stopped gateway
	jobRestore = "restore" // see [backup.Restore]
	jobExamine = "examine" // what is in a database
	jobVerify  = "verify"  // the chain of a journal, and the witnesses
)

// order is what a worker is to do.
type order struct {
	Job       string            `json:"job"`
	Path      string            `json:"path"`         // the data directory, or the file to look at; decides whose the worker is
	By        string            `json:"by,omitempty"` // for the journal
	Restore   *backup.Order     `json:"restore,omitempty"`
	Witnesses []journal.Witness `json:"witnesses,omitempty"`
}

// answer is what a worker has done or found. What was found counts with a failure too.
type answer struct {
	Failed   *failure         `json:"failed,omitempty"`
	Restored backup.Restored  `json:"restored"`
	State    sqlite.FileState `json:"state"`
	Verdict  adminapi.Verdict `json:"verdict"`
}

// failure is the error of a worker.
type failure struct {
	Kind     fault.Kind `json:"kind"`
	Sentence string     `json:"sentence"`
	Begun    bool       `json:"begun,omitempty"` // [backup.ErrBegun]
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Kind: fault.KindOf(err), Sentence: describe(err), Begun: errors.Is(err, backup.ErrBegun)}
	switch {
	case errors.Is(err, fs.ErrPermission):
		f.Kind = fault.Forbidden
	case f.Kind == fault.Internal:
		f.Kind = fault.Unavailable // no gateway's log has more
	}
	return f
}

func (f *failure) error() error {
	if f == nil {
		return nil
	}
	err := fault.New(f.Kind, printable(f.Sentence))
	if f.Begun {
		err = errors.Join(err, backup.ErrBegun)
	}
	return err
}

// worker is a running worker, as the process that started it sees it.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser // behind the order
	out io.ReadCloser
	*bufio.Reader
}

// killPatience is how long a worker that is interrupted may take to leave things in order.
const killPatience = 10 * time.Second

// startWorker starts a worker as the owner of the path and sends it the order. When ctx
// ends, the worker is interrupted.
func (a *app) startWorker(ctx context.Context, job order) (_ *worker, err error) {
	if job.Path, err = filepath.Abs(job.Path); err != nil {
		return nil, fmt.Errorf("finding %s: %w", job.Path, err)
	}
	w := &worker{cmd: exec.CommandContext(ctx, "/proc/self/exe", workerName)} //nolint:gosec // this program
	w.cmd.Args[0] = os.Args[0]
	w.cmd.Dir, w.cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	w.cmd.Cancel, w.cmd.WaitDelay = func() error { return w.cmd.Process.Signal(os.Interrupt) }, killPatience
	// The worker's user gets no hand on the terminal, and an interrupt there is for this
	// process.
	w.cmd.Stderr, w.cmd.SysProcAttr = struct{ io.Writer }{a.stderr}, &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		owner, err := machine.OwnerOf(job.Path)
		if err != nil {
			return nil, err
		}
		w.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(owner.UID), Gid: uint32(owner.GID), Groups: []uint32{uint32(owner.GID)}} //nolint:gosec // ids of the system
	}
	w.in, err = w.cmd.StdinPipe()
	if err == nil {
		w.out, err = w.cmd.StdoutPipe()
	}
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting to work on %s: %w", job.Path, err)
	}
	w.Reader = lineReader(w.out)
	_ = json.NewEncoder(w.in).Encode(job) // answer reports a worker that has ended
	return w, nil
}

// answer waits for the answer.
func (w *worker) answer() (got answer, err error) {
	if err := readLine(w.Reader, &got); err != nil {
		return got, fmt.Errorf("working on the data directory: %w", err)
	}
	return got, got.Failed.error()
}

// maxLine bounds an order or an answer, in bytes.
const maxLine = 1 << 20

// lineReader returns a reader for [readLine].
func lineReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, maxLine) }

// readLine reads one line of JSON.
func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// Close lets the worker end and waits for it.
func (w *worker) Close() error { return errors.Join(w.in.Close(), w.out.Close(), w.cmd.Wait()) }

// finish ends the worker's input and returns its answer, when it has ended.
func (w *worker) finish() (answer, error) {
	_ = w.in.Close()
	got, err := w.answer()
	_ = w.Close() // its answer is all that counts
	return got, err
}

// look has a worker look at a file.
func (a *app) look(ctx context.Context, job order) (answer, error) {
	w, err := a.startWorker(ctx, job)
	if err != nil {
		return answer{}, err
	}
	got, err := w.finish()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if as := w.cmd.SysProcAttr.Credential; as != nil && fault.Is(err, fault.Forbidden) {
		err = fault.Wrap(fault.Forbidden, fmt.Sprintf("User %d, who owns %s, must be able to read it and to enter its folder: move it or give it to root with chown", as.Uid, job.Path), err)
	}
	return got, err
}

// examineDatabase implements the Database of [doctor.Config].
func (a *app) examineDatabase(ctx context.Context, path string) (sqlite.FileState, error) {
	got, err := a.look(ctx, order{Job: jobExamine, Path: path})
	return got.State, err
}

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
	in := lineReader(a.stdin)
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
		got, err = examine(ctx, job)
	}
	got.Failed = failureOf(err)
	return json.NewEncoder(a.stdout).Encode(got)
}

// restoreData restores the archive that follows the order.
func (a *app) restoreData(ctx context.Context, o backup.Order, archive io.Reader) (backup.Restored, error) {
	release, err := gateway.TakeData(o.Data)
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
		release, err := gateway.TakeData(job.Path)
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

// examine does a job that only looks at a file, which no gateway has open.
func examine(ctx context.Context, job order) (got answer, err error) {
	if info, err := os.Stat(job.Path); err == nil && !info.Mode().IsRegular() {
		return got, fault.New(fault.Invalid, job.Path+" is no ordinary file")
	}
	switch job.Job {
	case jobExamine:
		got.State, err = sqlite.CheckFile(ctx, job.Path)
	case jobVerify:
		got.Verdict.Verdict, err = sqlite.VerifyFile(ctx, job.Path)
		got.Verdict.Sound = got.Verdict.Broken == 0
		if err == nil && len(job.Witnesses) > 0 {
			got.Verdict.Witnesses, err = sqlite.TestifyFile(ctx, job.Path, job.Witnesses)
		}
	}
	return got, err
}
