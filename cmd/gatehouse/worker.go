package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"gatehouse/internal/backup"
	"gatehouse/internal/fault"
	"gatehouse/internal/gateway"
	"gatehouse/internal/host"
	"gatehouse/internal/site"
	"gatehouse/internal/sqlite"
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

// The open files that a worker inherits, behind the three of every process.
const (
	dataFile = 3
	logFile  = 4 // of a plain database
)

// order is one order to a worker: the job first, then the next steps.
type order struct {
	Job           string        `json:"job,omitempty"`
	Data          string        `json:"data,omitempty"`
	By            string        `json:"by,omitempty"`   // for the journal
	Name          string        `json:"name,omitempty"` // of the medium
	Whole         bool          `json:"whole,omitempty"`
	Log           bool          `json:"log,omitempty"` // whether there is a logFile
	AcceptJournal bool          `json:"acceptJournal,omitempty"`
	Made          bool          `json:"made,omitempty"` // the data directory was made for this
	Commit        *backup.Terms `json:"commit,omitempty"`
	Forget        bool          `json:"forget,omitempty"`
}

// answer is a worker's answer to one order.
type answer struct {
	Failed *failure `json:"failed,omitempty"`

	Warning  string          `json:"warning,omitempty"` // jobBackup
	Waits    string          `json:"waits,omitempty"`   // jobComplete: the id of a placement
	Manifest backup.Manifest `json:"manifest"`          // jobRestore: what was staged
	Broken   uint64          `json:"broken,omitempty"`
	Restored backup.Restored `json:"restored"` // of a commit
}

// failure is an error on its way from a worker.
type failure struct {
	Kind     fault.Kind `json:"kind"`
	Sentence string     `json:"sentence"`
	Begun    bool       `json:"begun"`
	Runs     bool       `json:"runs"`
	Canceled bool       `json:"canceled"`
}

// errRuns says that a gateway holds the data directory.
var errRuns = errors.New("a gateway runs there")

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{fault.KindOf(err), describe(err), errors.Is(err, backup.ErrBegun), errors.Is(err, errRuns), errors.Is(err, context.Canceled)}
}

func (f *failure) error() error {
	switch {
	case f == nil:
		return nil
	case f.Canceled:
		return context.Canceled
	case f.Begun:
		return fault.Wrap(f.Kind, f.Sentence, backup.ErrBegun)
	case f.Runs:
		return fault.Wrap(f.Kind, f.Sentence, errRuns)
	case f.Kind == fault.Internal:
		return errors.New(f.Sentence)
	default:
		return fault.New(f.Kind, f.Sentence)
	}
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
		owner, err := host.OwnerOf(job.Data)
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

// tell sends an order and waits for the answer.
func (w *worker) tell(o order) (answer, error) {
	_ = w.orders.Encode(o) // as in startWorker
	return w.listen()
}

// Commit implements [backup.Keeper].
func (w *worker) Commit(_ context.Context, t backup.Terms) (backup.Restored, error) {
	got, err := w.tell(order{Commit: &t})
	return got.Restored, err
}

// Forget implements [backup.Keeper].
func (w *worker) Forget() error {
	_, err := w.tell(order{Forget: true})
	return err
}

// finish lets the worker end and waits for it. The worker discards what was not
// committed.
func (w *worker) finish() error { return errors.Join(w.in.Close(), w.cmd.Wait()) }

// workerCommand is the worker's side.
func (a *app) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    workerName,
		Short:  "Work in a data directory as its owner, for backup and restore",
		Long:   "backup and restore run this by themselves, as the owner of the data directory.",
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
func takeData(data string) (release, abandon func(), err error) {
	release, abandon, err = gateway.TakeData(data, slog.New(slog.DiscardHandler))
	if fault.Is(err, fault.Conflict) {
		err = fault.Wrap(fault.Conflict, fault.Sentence(err), errRuns)
	}
	return release, abandon, err
}

// backup writes the archive of a gateway that does not run.
func (s *shift) backup(ctx context.Context, job order) error {
	source := backup.Source{Data: job.Data, Version: version, Database: sqlite.Files{Logger: s.warnings()}, Now: s.now}
	if _, err := os.Stat(job.Data); err != nil {
		_, err := source.Stopped(ctx) // says what is missing
		return err
	}
	release, _, err := takeData(job.Data)
	if err != nil {
		return err
	}
	defer release()
	var got answer
	path := filepath.Join(job.Data, databaseFile)
	if _, err := os.Stat(path); err == nil {
		record := site.Record{Kind: site.KindBackupTaken, Facts: site.Facts{Origin: site.Admin, By: job.By, Detail: "of the stopped gateway"}}
		if err := (sqlite.Files{Logger: s.warnings()}).Note(ctx, path, record); err != nil {
			got.Warning = "the journal has no record of this backup: " + fault.Sentence(err)
		}
	}
	parcel, err := source.Stopped(ctx)
	if err != nil {
		return err
	}
	if err := s.answer(got); err != nil {
		return errors.Join(err, parcel.Close())
	}
	to := os.NewFile(dataFile, "the archive")
	_, err = parcel.WriteTo(to)
	return errors.Join(err, parcel.Close(), to.Close())
}

// restore unpacks the open files of its job and puts the data in place when it is
// ordered to.
func (s *shift) restore(ctx context.Context, job order) (err error) {
	release, abandon, err := takeData(job.Data)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		if committed {
			release()
			return
		}
		if job.Made {
			_ = os.Remove(filepath.Join(job.Data, "lock"))
		}
		abandon()
	}()
	in, err := inputOf(job)
	if err != nil {
		return err
	}
	staged, err := backup.Stage(ctx, in, backup.Options{Data: job.Data, Database: sqlite.Files{Logger: s.warnings()}, AcceptJournal: job.AcceptJournal})
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
	committed = err == nil || errors.Is(err, backup.ErrBegun)
	if err == nil {
		err = s.answer(answer{Restored: done})
	}
	if err != nil {
		return err
	}
	return s.forget(job.Data)
}

// inputOf opens the files that a worker inherited.
func inputOf(job order) (backup.Input, error) {
	data := os.NewFile(dataFile, job.Name)
	in := backup.Input{Name: job.Name, Whole: job.Whole, Data: data}
	if job.Whole {
		return in, nil
	}
	files := []*os.File{data}
	if job.Log {
		log := os.NewFile(logFile, job.Name)
		in.Log, files = log, append(files, log)
	}
	for _, f := range files {
		info, err := f.Stat()
		if err != nil {
			return in, fmt.Errorf("reading %s: %w", job.Name, err)
		}
		in.Size += info.Size()
	}
	return in, nil
}

// complete completes an interrupted restore of the data, and answers which
// configuration waits for it.
func (s *shift) complete(job order) error {
	if _, err := os.Stat(job.Data); errors.Is(err, fs.ErrNotExist) {
		return s.answer(answer{})
	}
	release, _, err := takeData(job.Data)
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

// completeRestore finishes an interrupted restore of the configuration that the flags
// and the environment name.
func (a *app) completeRestore() error {
	where := backup.Configuration{Main: a.mainConfig()}
	if ownConfiguration(where) != nil {
		return nil //nolint:nilerr // no restore of this user has written there
	}
	var w *worker
	_, err := where.Resume(func(data string) (string, interface{ Forget() error }, error) {
		var err error
		if w, err = a.startWorker(order{Job: jobComplete, Data: data}); err != nil {
			return "", nil, err
		}
		got, err := w.listen()
		return got.Waits, w, err
	})
	if w != nil {
		err = errors.Join(err, w.finish())
	}
	return err
}

// ownConfiguration refuses, to root, a configuration in a folder that another user may
// change.
func ownConfiguration(where backup.Configuration) error {
	folder := filepath.Dir(where.Main)
	if os.Geteuid() != 0 {
		return nil
	}
	owner, err := host.OwnerOf(folder)
	if err == nil && owner.UID != 0 {
		err = fault.New(fault.Forbidden, fmt.Sprintf(
			"The configuration in %s is not root's but that of the user with the number %d: restore as that user, or leave it as it is with --no-config", folder, owner.UID))
	}
	return err
}

// systemUser is the user that the packaged unit runs the gateway as.
const systemUser = "gatehouse"

// makeData creates the data directory of a board that has none yet, for the user of the
// gateway if there is one; abandon removes it again while it is empty. Without that
// user the worker creates it.
func makeData(data string) (abandon func(), err error) {
	owner, known := host.NamedOwner(systemUser)
	_, missing := os.Lstat(data)
	if os.Geteuid() != 0 || !known || !errors.Is(missing, fs.ErrNotExist) {
		return func() {}, nil
	}
	if above, err := host.OwnerOf(data); err != nil || above.UID != 0 {
		return func() {}, err
	}
	if err := os.MkdirAll(filepath.Dir(data), 0o755); err != nil { //nolint:gosec // the folder above, such as /var/lib
		return nil, fault.Wrap(fault.Unavailable, "The data directory "+data+" cannot be made", err)
	}
	err = os.Mkdir(data, 0o700)
	if err == nil {
		err = os.Lchown(data, owner.UID, owner.GID)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "The data directory "+data+" cannot be made", err)
	}
	return func() { _ = os.Remove(data) }, nil
}
