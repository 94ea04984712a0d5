package main

import (
	"bufio"
	"bytes"
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

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
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
	Failed    *failure            `json:"failed,omitempty"`
	Restored  backup.Restored     `json:"restored"`
	State     sqlite.FileState    `json:"state"`
	Verdict   journal.Verdict     `json:"verdict"`
	Testimony []journal.Testimony `json:"testimony,omitempty"`
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 8 << 20

// errRuns means that a gateway holds the data directory.
var errRuns = errors.New("a gateway runs there")

// failure is the error of a worker.
type failure struct {
	Kind     fault.Kind `json:"kind"`
	Sentence string     `json:"sentence"`
	Begun    bool       `json:"begun,omitempty"` // [backup.ErrBegun]
	Runs     bool       `json:"runs,omitempty"`  // errRuns
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Kind: fault.KindOf(err), Sentence: describe(err), Begun: errors.Is(err, backup.ErrBegun), Runs: errors.Is(err, errRuns)}
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
	var cause error
	switch {
	case f.Begun:
		cause = backup.ErrBegun
	case f.Runs:
		cause = errRuns
	}
	return &fault.Error{Kind: f.Kind, Sentence: printable(f.Sentence), Err: cause}
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
	w.Reader = bufio.NewReader(w.out)
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

// readLine reads one line of JSON.
func readLine(r *bufio.Reader, v any) error {
	var line []byte
	for {
		piece, err := r.ReadSlice('\n')
		line = append(line, piece...)
		if err == nil {
			return json.NewDecoder(bytes.NewReader(line)).Decode(v)
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxAnswer {
			return err
		}
	}
}

// Close lets the worker end and waits for it.
func (w *worker) Close() error { return errors.Join(w.in.Close(), w.out.Close(), w.cmd.Wait()) }

// do has a job done of which the answer is all.
func (a *app) do(ctx context.Context, job order) (answer, error) {
	w, err := a.startWorker(ctx, job)
	if err != nil {
		return answer{}, err
	}
	got, err := w.answer()
	_ = w.Close() // its answer is all that counts
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if uid := w.cmd.SysProcAttr.Credential; uid != nil && fault.Is(err, fault.Forbidden) {
		err = fault.Wrap(fault.Forbidden, fmt.Sprintf("User %d, who owns %s, must be able to read it and to enter its folder: move it or give it to root with chown", uid.Uid, job.Path), err)
	}
	return got, err
}

// examineDatabase implements the Database of [doctor.Config].
func (a *app) examineDatabase(ctx context.Context, path string) (sqlite.FileState, error) {
	got, err := a.do(ctx, order{Job: jobExamine, Path: path})
	return got.State, err
}
