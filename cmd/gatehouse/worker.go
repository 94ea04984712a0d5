package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/journal"
	"gatehouse/internal/record/sqlite"
)

// The data directory belongs to another user, so root does not work there: a process of
// that user does, the worker. Root keeps to the configuration and the backup, and
// passes open files to the worker. They exchange JSON: orders go to the worker's
// standard input, whose end cancels the job; answers come back on its standard output.

// workerName is the hidden command that runs as the owner of the data directory.
const workerName = "data-worker"

// The jobs of a worker.
const (
	jobBackup   = "backup"   // write the archive of a stopped gateway to dataFile
	jobRestore  = "restore"  // unpack dataFile, then commit and forget as ordered
	jobComplete = "complete" // complete what was interrupted, then forget as ordered
)

// dataFile is the pipe that a worker inherits, behind the three files of every process.
const dataFile = 3

// order is one order to a worker: the job first, then the next steps.
type order struct {
	Job           string        `json:"job,omitempty"`
	Data          string        `json:"data,omitempty"`
	By            string        `json:"by,omitempty"`   // for the journal
	Name          string        `json:"name,omitempty"` // of the medium
	AcceptJournal bool          `json:"acceptJournal,omitempty"`
	Commit        *backup.Terms `json:"commit,omitempty"`
	Forget        bool          `json:"forget,omitempty"`

	Path      string            `json:"path,omitempty"` // of a job that only looks at a file
	Witnesses []journal.Witness `json:"witnesses,omitempty"`
}

// answer is a worker's answer to one order.
type answer struct {
	Failed *failure `json:"failed,omitempty"`

	Waits    string          `json:"waits,omitempty"` // jobComplete: the id of a placement
	Manifest backup.Manifest `json:"manifest"`        // jobRestore: what was staged
	Broken   uint64          `json:"broken,omitempty"`
	Restored backup.Restored `json:"restored"` // of a commit

	State     sqlite.FileState    `json:"state"`   // jobExamine
	Verdict   journal.Verdict     `json:"verdict"` // jobVerify
	Testimony []journal.Testimony `json:"testimony,omitempty"`
}

// errRuns means that a gateway holds the data directory.
var errRuns = errors.New("a gateway runs there")

// sentinels returns the errors that a command distinguishes when a worker reports them.
func sentinels() []error {
	return []error{backup.ErrBegun, errRuns, context.Canceled, fs.ErrNotExist, fs.ErrPermission}
}

// failure is the error of a worker, as it is sent to the process that started it.
type failure struct {
	Kind     fault.Kind `json:"kind"`
	Sentence string     `json:"sentence"`
	Is       []int      `json:"is,omitempty"` // which of the sentinels
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Kind: fault.KindOf(err), Sentence: describe(err)}
	if f.Kind == fault.Internal {
		f.Kind = fault.Unavailable // no gateway's log has more
	}
	for i, sentinel := range sentinels() {
		if errors.Is(err, sentinel) {
			f.Is = append(f.Is, i)
		}
	}
	return f
}

func (f *failure) error() error {
	if f == nil {
		return nil
	}
	var is []error
	for i, sentinel := range sentinels() {
		if slices.Contains(f.Is, i) { // it may be another number: the worker is another user's
			is = append(is, sentinel)
		}
	}
	return &fault.Error{Kind: f.Kind, Sentence: f.Sentence, Err: errors.Join(is...)}
}

// worker is a running worker, as the process that started it sees it.
type worker struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	orders  *json.Encoder
	answers *json.Decoder
}

// startWorker starts a worker as the owner of the data directory and sends it its job.
// The worker inherits the files.
func (a *app) startWorker(job order, files ...*os.File) (_ *worker, err error) {
	if job.Data, err = filepath.Abs(job.Data); err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	w := &worker{cmd: exec.Command("/proc/self/exe", workerName)} //nolint:gosec,noctx // this program, ended by finish
	w.cmd.Args[0] = os.Args[0]
	w.cmd.Dir, w.cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	w.cmd.Stderr, w.cmd.ExtraFiles = a.stderr, files
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is for this process, which calls the worker off
	if os.Geteuid() == 0 {
		owner, err := machine.OwnerOf(job.Data)
		if err != nil {
			return nil, err
		}
		w.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(owner.UID), Gid: uint32(owner.GID), Groups: []uint32{uint32(owner.GID)}} //nolint:gosec // ids of the system
	}
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting to work on %s: %w", job.Data, err)
	}
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting to work on %s: %w", job.Data, err)
	}
	w.in, w.orders, w.answers = in, json.NewEncoder(in), json.NewDecoder(out)
	_ = w.orders.Encode(job) // listen reports a worker that has ended
	return w, nil
}

// listen waits for the answer to the last order.
func (w *worker) listen() (answer, error) {
	var got answer
	if err := w.answers.Decode(&got); err != nil {
		return got, fmt.Errorf("working on the data directory: %w", errors.Join(err, w.finish()))
	}
	return got, got.Failed.error()
}

// send sends an order and waits for the answer.
func (w *worker) send(o order) (answer, error) {
	_ = w.orders.Encode(o) // as in startWorker
	return w.listen()
}

// Commit implements [backup.Keeper].
func (w *worker) Commit(_ context.Context, t backup.Terms) (backup.Restored, error) {
	got, err := w.send(order{Commit: &t})
	return got.Restored, err
}

// Forget implements [backup.Keeper].
func (w *worker) Forget() error {
	_, err := w.send(order{Forget: true})
	return err
}

// finish lets the worker end and waits for it. The worker discards what was not
// committed.
func (w *worker) finish() error { return errors.Join(w.in.Close(), w.cmd.Wait()) }
