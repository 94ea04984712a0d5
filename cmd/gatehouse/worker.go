package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/config"
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
// input, its answer a line of JSON on its standard output. An archive follows the order of
// a restore and the answer of a backup. Root touches only the configuration and the file
// of the backup, and acts on nothing that the worker claims.

// workerName is the hidden command that runs as the owner of the data directory.
const workerName = "data-worker"

// The jobs of a worker.
const (
	jobBackup  = "backup"  // the archive of a stopped gateway
	jobExamine = "examine" // what is in a database
	jobVerify  = "verify"  // the chain of a journal, and the witnesses
)

// order is what a worker is to do: a job, or a restore.
type order struct {
	Job       string            `json:"job,omitempty"`
	Path      string            `json:"path"`    // the data directory, or the file to look at; the worker runs as its owner
	Runtime   string            `json:"runtime"` // the runtime directory of the gateway, for a backup and a restore
	Restore   *backup.Order     `json:"restore,omitempty"`
	Witnesses []journal.Witness `json:"witnesses,omitempty"`
}

// runtimeFolder returns the runtime directory of the gateway: that of the packaged unit where the
// environment names none.
func (a *app) runtimeFolder() string {
	return cmp.Or(config.Lookup(a.environ, gateway.RuntimeVariable), "/run/gatehouse")
}

// answer is what a worker has done or found. What was found counts with an error too.
type answer struct {
	Failed   fault.Kind         `json:"failed,omitempty"` // the kind of an error; 0: none
	Sentence string             `json:"sentence,omitempty"`
	Begun    bool               `json:"begun,omitempty"` // the error is a [backup.ErrBegun]
	Restored backup.Restored    `json:"restored"`
	State    site.DatabaseState `json:"state"`
	Verdict  adminapi.Verdict   `json:"verdict"`
}

// with adds an error to an answer.
func (got answer) with(err error) answer {
	if err != nil {
		got.Failed = cmp.Or(fault.KindOf(err), fault.Unavailable) // no gateway's log has more
		got.Sentence, got.Begun = describe(err), errors.Is(err, backup.ErrBegun)
	}
	return got
}

// error returns the error in an answer.
func (got answer) error() error {
	if got.Failed == fault.Internal {
		return nil
	}
	err := fault.New(got.Failed, printable(got.Sentence))
	if got.Begun {
		err = errors.Join(err, backup.ErrBegun)
	}
	return err
}

// terminal passes on what a worker writes to standard error, fit for root's terminal.
type terminal struct{ io.Writer }

func (t terminal) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Fprintln(t.Writer, printable(strings.TrimSuffix(line, "\n")))
	}
	return len(text), nil
}

// worker is a running worker, as the process that started it sees it.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser // what follows the order
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
	// The worker's user gets no access to the terminal, and an interrupt there is for this
	// process.
	w.cmd.Stderr, w.cmd.SysProcAttr = terminal{a.stderr}, &syscall.SysProcAttr{Setsid: true}
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
	w.Reader = bufio.NewReaderSize(w.out, maxLine)
	_ = json.NewEncoder(w.in).Encode(job) // answer reports a worker that has ended
	return w, nil
}

// answer waits for the answer.
func (w *worker) answer() (got answer, err error) {
	if err := readLine(w.Reader, &got); err != nil {
		return got, fault.Wrap(fault.Unavailable, "The process that works on the data ended without an answer: look for it with dmesg and try again", errors.Join(err, backup.ErrBegun))
	}
	return got, got.error()
}

// maxLine bounds an order or an answer, in bytes.
const maxLine = 1 << 20

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
func (a *app) examineDatabase(ctx context.Context, path string) (site.DatabaseState, error) {
	got, err := a.look(ctx, order{Job: jobExamine, Path: path})
	return got.State, err
}

// workerCommand is the worker's side.
func (a *app) workerCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:    workerName,
		Short:  "Work in a data directory as its owner, for other commands",
		Long:   "backup, restore, doctor and journal verify run this by themselves, as the data's owner.",
		Hidden: true,
	}, func(ctx context.Context, _ []string) error { return a.work(ctx) })
}

// work does the job that is ordered on standard input.
func (a *app) work(ctx context.Context) error {
	var job order
	in := bufio.NewReaderSize(a.stdin, maxLine)
	if err := readLine(in, &job); err != nil {
		return wrongUsagef("gatehouse runs this by itself")
	}
	var got answer
	var err error
	switch {
	case job.Job == jobBackup:
		return a.sendStopped(ctx, job)
	case job.Restore != nil:
		got.Restored, err = a.restoreData(ctx, job, in)
	default:
		got, err = examine(ctx, job)
	}
	return json.NewEncoder(a.stdout).Encode(got.with(err))
}

// restoreData restores the archive that follows the order.
func (a *app) restoreData(ctx context.Context, job order, archive io.Reader) (backup.Restored, error) {
	release, err := gateway.TakeData(job.Path)
	if err != nil {
		return backup.Restored{}, err
	}
	defer release()
	job.Restore.Data, job.Restore.Runtime = job.Path, job.Runtime
	warnings := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return backup.Restore(ctx, *job.Restore, sqlite.Files{Logger: warnings}, archive)
}

// sendStopped sends the answer and the archive of a gateway that does not run.
func (a *app) sendStopped(ctx context.Context, job order) error {
	release, err := func() {}, error(nil)
	if _, missing := os.Stat(job.Path); missing == nil { // else there is nothing to lock
		release, err = gateway.TakeData(job.Path)
	}
	var parcel *backup.Parcel
	if err == nil {
		defer release()
		parcel, err = backup.Source{Data: job.Path, Runtime: job.Runtime, Version: version, Database: sqlite.Files{}, Now: a.now}.Stopped(ctx)
	}
	sent := json.NewEncoder(a.stdout).Encode(answer{}.with(err))
	if err != nil || sent != nil {
		return sent
	}
	return errors.Join(parcel.Write(a.stdout), parcel.Close())
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
		got.Verdict.Verdict, err = sqlite.Files{}.Verify(ctx, job.Path)
		got.Verdict.Sound = got.Verdict.Broken == 0
		if err == nil && len(job.Witnesses) > 0 {
			got.Verdict.Witnesses, err = sqlite.TestifyFile(ctx, job.Path, job.Witnesses)
		}
	}
	return got, err
}
