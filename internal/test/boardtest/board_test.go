//go:build board

package boardtest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/need"
)

// rebooted is how nspawn ends when the container wants to be started again.
const rebooted = 133

// board is one machine: a container with its own systemd, and a cable from its
// network to that of the tests.
type board struct {
	*testing.T
	address string // of the board
	here    string // ours, on its cable
	cable   string // our end of it
	dir     string // holds the folders below

	boots   atomic.Int32 // how often it was started
	machine atomic.Int64 // process id of its init
	ended   chan struct{}
	console bytes.Buffer // may be read once it has ended
}

var boards atomic.Int32

// newBoard makes a board with a blank Debian that is switched off. It is gone when
// the test ends.
func newBoard(t *testing.T, suite string) *board {
	t.Helper()
	need.Root(t)
	need.Program(t, "mmdebstrap", "systemd-nspawn", "nsenter", "ip", "mkfs.ext4", "fsfreeze")
	lower := debian(t, suite)
	n := strconv.Itoa(int(boards.Add(1)))
	b := &board{
		T: t, dir: filepath.Join(scratch(), "board"+n),
		address: "10.77." + n + ".2", here: "10.77." + n + ".1", cable: "cable" + n,
	}
	for _, name := range []string{"root", "upper", "work"} {
		b.must(os.MkdirAll(filepath.Join(b.dir, name), 0o755))
	}
	b.must(os.Mkdir(b.cgroup(), 0o755))
	b.must(unix.Mount("overlay", b.root(), "overlay", 0,
		"lowerdir="+lower+",upperdir="+filepath.Join(b.dir, "upper")+",workdir="+filepath.Join(b.dir, "work")))
	t.Cleanup(func() {
		_ = unix.Unmount(b.root(), unix.MNT_DETACH)
		_ = os.RemoveAll(b.dir)
	})
	// An unlock may take as long here as the configuration allows: no test is about that.
	folder := filepath.Join(b.root(), "etc", "systemd", "system.conf.d")
	b.must(os.MkdirAll(folder, 0o755))
	b.must(os.WriteFile(filepath.Join(folder, "ttl.conf"), []byte("[Manager]\nDefaultEnvironment=GATEHOUSE_UNLOCK_TTL=1m\n"), 0o644))
	b.plugIn()
	return b
}

// startBoard makes a board and starts it.
func startBoard(t *testing.T, suite string) *board {
	t.Helper()
	b := newBoard(t, suite)
	b.switchOn()
	return b
}

func (b *board) root() string    { return filepath.Join(b.dir, "root") }
func (b *board) network() string { return filepath.Join(b.dir, "network") }
func (b *board) cgroup() string {
	return filepath.Join(cgroup(), filepath.Base(b.dir))
}

func (b *board) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// disk is a disk of the board, as it looks out here.
type disk struct {
	image  string // every byte of it
	folder string // where it is mounted
}

// mountDisk returns a folder a file system of its own, of so many megabytes. Call it
// before the board is switched on.
func (b *board) mountDisk(path string, megabytes int64) disk {
	b.Helper()
	d := disk{image: filepath.Join(b.dir, filepath.Base(path)+".img"), folder: filepath.Join(b.root(), path)}
	f, err := os.Create(d.image)
	b.must(err)
	b.must(f.Truncate(megabytes << 20))
	b.must(f.Close())
	b.must(command("mkfs.ext4", "-q", "-m", "0", d.image))
	b.must(os.MkdirAll(d.folder, 0o700))
	b.must(command("mount", "-o", "loop", d.image, d.folder))
	b.Cleanup(func() { await.Until(b, "the disk is free", func() bool { return command("umount", d.folder) == nil }) })
	return d
}

// plugIn makes the network of the board and the cable to it.
func (b *board) plugIn() {
	b.Helper()
	b.must(os.WriteFile(b.network(), nil, 0o600))
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", b.network(), "", unix.MS_BIND, "")
		}
		made <- err
	}()
	b.must(<-made)
	b.Cleanup(func() { _ = unix.Unmount(b.network(), unix.MNT_DETACH) }) // the cable goes with it
	inside := func(line string) {
		b.Helper()
		b.must(command("nsenter", append([]string{"--net=" + b.network(), "ip"}, strings.Fields(line)...)...))
	}
	b.must(command("ip", "link", "add", b.cable, "type", "veth", "peer", "name", "lan", "netns", b.network()))
	b.must(command("ip", "addr", "add", b.here+"/24", "dev", b.cable))
	b.must(command("ip", "link", "set", b.cable, "up"))
	inside("link set lo up")
	inside("addr add " + b.address + "/24 dev lan")
	inside("link set lan up")
}

// switchOn starts the board and waits until systemd has started everything. It
// goes on after a reboot.
func (b *board) switchOn() {
	b.Helper()
	b.ended = make(chan struct{})
	go func() {
		defer close(b.ended)
		for b.run() == rebooted {
		}
	}()
	b.Cleanup(b.end)
	b.awaitBoot(1)
}

// run runs the board until it is off, and returns how nspawn ended.
func (b *board) run() int {
	defer b.machine.Store(0)
	group, err := os.Open(b.cgroup())
	if err != nil {
		b.Error(err)
		return 0
	}
	defer func() { _ = group.Close() }()
	cmd := exec.Command("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--kill-signal=SIGRTMIN+3",
		"--machine=gatehouse", "--directory="+b.root(), "--boot", "--network-namespace-path="+b.network(),
		"--console=read-only", "--capability=all", "--system-call-filter=bpf")
	cmd.Stdout, cmd.Stderr = &b.console, &b.console
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if err := cmd.Start(); err != nil {
		b.Error(err)
		return 0
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for b.machine.Load() == 0 {
		select {
		case <-tick.C:
			b.machine.Store(initOf(cmd.Process.Pid))
		case <-ended:
			return cmd.ProcessState.ExitCode()
		}
	}
	b.boots.Add(1)
	<-ended
	return cmd.ProcessState.ExitCode()
}

// initOf finds the first process of the container that nspawn runs; 0: not yet.
func initOf(nspawn int) int64 {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", nspawn))
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for child := range strings.FieldsSeq(string(children)) {
			status, _ := os.ReadFile("/proc/" + child + "/status")
			if _, ids, found := strings.Cut(string(status), "NSpid:"); found {
				line, _, _ := strings.Cut(ids, "\n")
				if fields := strings.Fields(line); len(fields) > 1 && fields[len(fields)-1] == "1" {
					pid, _ := strconv.ParseInt(child, 10, 64)
					return pid
				}
			}
		}
	}
	return 0
}

// awaitBoot waits until the n-th start is over.
func (b *board) awaitBoot(n int32) {
	b.Helper()
	await.Until(b, fmt.Sprintf("start %d of the board is over", n), func() bool {
		if b.boots.Load() < n {
			return false
		}
		state, _ := b.try("systemctl is-system-running")
		return strings.HasPrefix(state, "running") || strings.HasPrefix(state, "degraded")
	})
}

// end switches the board off, hard, after it has said what there is to know about
// a failure.
func (b *board) end() {
	var logs string
	var err error
	if b.Failed() {
		logs, err = b.try("systemctl --no-pager --full --lines=0 status 'gatehouse*' || true; systemctl --failed --no-pager; " +
			"journalctl --no-pager --output=short-precise --unit='gatehouse*' | " +
			"grep --invert-match 'outcome=acknowledged\\|record kept' | tail --lines=60")
		b.Log(logs)
	}
	if pid := b.machine.Load(); pid != 0 {
		_ = syscall.Kill(int(pid), syscall.SIGKILL) // and everything in it
	}
	<-b.ended
	if err != nil {
		text := b.console.String()
		b.Logf("the console, at its end:\n%s", text[max(0, len(text)-4000):])
	}
	await.Until(b, "its control groups are empty", func() bool { return removeCgroups(b.cgroup()) == nil })
}

// try runs a shell script on the board and returns what it prints.
func (b *board) try(script string) (string, error) {
	ctx, cancel := context.WithDeadline(context.Background(), await.Deadline()) // real time: that of await, also while the test ends
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.FormatInt(b.machine.Load(), 10), "--all",
		"sh", "-euc", script)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	cmd.WaitDelay = await.Patience
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// sh runs a shell script on the board, which must end well, and returns what it
// prints.
func (b *board) sh(script string) string {
	b.Helper()
	out, err := b.try(script)
	if err != nil {
		b.Fatalf("on the board: %s: %v\n%s", script, err, out)
	}
	return out
}

// file is the path, out here, of a file on the running board.
func (b *board) file(path string) string {
	return fmt.Sprintf("/proc/%d/root%s", b.machine.Load(), path)
}

// write writes a file on the running board, for everybody to read, and the folders
// above it.
func (b *board) write(path, text string) {
	b.Helper()
	b.sh("mkdir --parents " + filepath.Dir(path))
	b.must(os.WriteFile(b.file(path), []byte(text), 0o644))
}

// read reads a file of the running board.
func (b *board) read(path string) string {
	b.Helper()
	data, err := os.ReadFile(b.file(path))
	b.must(err)
	return string(data)
}
