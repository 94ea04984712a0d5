package attacktest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
)

// nobody is the user and the group that the service runs as in these tests, by number.
const nobody = 65534

// asRoot reports whether the calling test runs as root. Where it does not, it runs the
// test again by sudo, and the test outside ends with that result. It skips the test where
// there is no sudo without a password. A test that needs programs calls package need first.
func asRoot(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() == 0 {
		return true
	}
	if exec.CommandContext(t.Context(), "sudo", "-n", "true").Run() != nil {
		need.Root(t)
	}
	cmd := exec.CommandContext(t.Context(), "sudo", "-n", "env", "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"), //nolint:gosec // this test itself
		os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("as root: %v\n%s", err, out)
	}
	return false
}

// board is a gateway that root administers and that another user runs: nobody owns its
// data directory, root the rest.
type board struct {
	t                  *testing.T
	root, data, config string // config is the main file
}

const passphrase = "tomato violin harbour seven"

func newBoard(t *testing.T) board {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "gatehouse-board-") //nolint:usetesting // every user may enter /tmp
	b := board{t, root, filepath.Join(root, "data"), filepath.Join(root, "gatehouse", "gatehouse.toml")}
	b.must(err)
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	b.must(os.Chmod(root, 0o755)) //nolint:gosec // for the service's user too
	b.write("gatehouse/gatehouse.toml", "# of the board\n")
	b.write("passphrase", passphrase+"\n")
	b.write("secrets/shadow", "root:$y$secret-hash")
	b.must(os.Chmod(filepath.Join(root, "secrets"), 0o700)) //nolint:gosec // a folder
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: b.data, Env: []string{"GATEHOUSE_CONFIG=" + b.config}})
	b.must(p.Stop())
	b.giveAway(b.data)
	return b
}

func (b board) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b board) path(name string) string { return filepath.Join(b.root, name) }

func (b board) write(name, text string) {
	b.t.Helper()
	b.must(os.MkdirAll(filepath.Dir(b.path(name)), 0o755)) //nolint:gosec // for the service's user too
	b.must(os.WriteFile(b.path(name), []byte(text), 0o600))
}

// giveAway makes everything under a folder that of the service's user.
func (b board) giveAway(folder string) {
	b.t.Helper()
	b.must(filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	}))
}

// command is the binary as root runs it, wrapped in a program or not.
func (b board) command(wrap []string, args ...string) *exec.Cmd {
	argv := slices.Concat(wrap, []string{gatewaytest.Binary(b.t)}, args)
	cmd := exec.CommandContext(b.t.Context(), argv[0], argv[1:]...) //nolint:gosec // our own binary
	cmd.Env = append(os.Environ(), "GATEHOUSE_DATA="+b.data, "GATEHOUSE_CONFIG="+b.config)
	return cmd
}

func (b board) run(args ...string) {
	b.t.Helper()
	if out, err := b.command(nil, args...).CombinedOutput(); err != nil {
		b.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// back writes a backup of the stopped gateway.
func (b board) back() (path string) {
	b.t.Helper()
	path = b.path("a.backup")
	b.run("backup", "--force", "--passphrase-file", b.path("passphrase"), path)
	return path
}

// asNobody runs a shell script as the user of the service.
func (b board) asNobody(script string) {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "sh", "-euc", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// keepsSecrets checks that a folder of root's is as it was.
func (b board) keepsSecrets() {
	b.t.Helper()
	names, err := os.ReadDir(b.path("secrets"))
	b.must(err)
	if len(names) != 1 {
		b.t.Errorf("the folder of root's holds %v", names)
	}
	for _, name := range []string{"secrets", "secrets/shadow"} {
		info, err := os.Lstat(b.path(name))
		b.must(err)
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != 0 {
			b.t.Errorf("%s belongs to %d now", name, stat.Uid)
		}
	}
}

// The user of the service planted the marker of an interrupted restore that named any
// paths: the next backup by root renamed and linked files as it said, into folders that
// only root may write.
func TestAttack_marker(t *testing.T) {
	if !asRoot(t) {
		return
	}
	t.Parallel()
	b := newBoard(t)
	b.asNobody(fmt.Sprintf(`cd %s; mkdir -p .restore-x/data; echo evil.so >evil; cat >restore.json <<END
{"phase":"in","staged":".restore-x","kept":"","config":[{"target":"%[1]s/evil","kept":"%s","gone":true}]}
END
mkdir -p .restored-x/data; ln -s %[3]s .restored-x/data/x; ln -s %[3]s before-restore-x; echo id >.restored-x/configuration`,
		b.data, b.path("secrets/ld.so.preload"), b.path("secrets")))
	b.back()
	b.keepsSecrets()
	if _, err := os.Lstat(filepath.Join(b.data, "evil")); err != nil {
		t.Error(err)
	}
}

// While root gave the files of a restore to the user of the service, one by one by their
// paths, that user put a link to a folder of root's in the place of one: all of that
// folder changed its owner too. Here the restore is stopped after each file that it hands
// away, so that the link is there at the right moment.
func TestAttack_restoreRace(t *testing.T) {
	need.Program(t, "strace")
	if !asRoot(t) {
		return
	}
	t.Parallel()
	b := newBoard(t)
	medium := b.back()
	trace := b.path("trace")
	cmd := b.command([]string{"strace", "-f", "-o", trace, "-e", "trace=?lchown,fchownat", "-e", "inject=?lchown,fchownat:signal=SIGSTOP"},
		"restore", "--passphrase-file", b.path("passphrase"), medium)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	b.must(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for done, seen := false, 0; !done; {
		await.Until(t, "the restore is stopped or has ended", func() bool {
			text, _ := os.ReadFile(trace) //nolint:gosec // of this test
			_, stop, stopping := strings.Cut(string(text[min(seen, len(text)):]), "--- SIGSTOP {")
			select {
			case <-ended:
				done = true
			default:
			}
			if stopping = stopping && strings.Contains(stop, "--- stopped by SIGSTOP ---"); stopping {
				seen = len(text)
			}
			return done || stopping
		})
		if !done {
			b.plantLink()
			b.must(syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT))
		}
	}
	b.keepsSecrets()
}

// plantLink puts a link to a folder of root's in the place of a folder that a restore
// has just given away.
func (b board) plantLink() {
	b.t.Helper()
	given, err := filepath.Glob(filepath.Join(b.data, ".restore-*", "config"))
	b.must(err)
	for _, path := range given {
		info, err := os.Lstat(path)
		b.must(err)
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == nobody && info.IsDir() {
			b.asNobody(fmt.Sprintf("cd %s; mv config away; ln -s %s config", filepath.Dir(path), b.path("secrets")))
		}
	}
}

// Root touches nothing in the data directory, by whatever path or handle: each program
// that does has become the owner of the directory before. The doctor, as root, looks at
// names, owners, modes and sizes there, and opens no file.
func TestAttack_rootInData(t *testing.T) {
	need.Program(t, "strace")
	if !asRoot(t) {
		return
	}
	t.Parallel()
	b := newBoard(t)
	medium := b.back()
	plain := b.path("plain.db")
	b.must(exec.CommandContext(t.Context(), "cp", filepath.Join(b.data, "gatehouse.db"), plain).Run()) //nolint:gosec // a copy
	for name, args := range map[string][]string{
		"backup":        {"backup", "--force", "--passphrase-file", b.path("passphrase"), medium},
		"restore":       {"restore", "--passphrase-file", b.path("passphrase"), medium},
		"plain restore": {"restore", plain},
		"verify":        {"journal", "verify"},
		"doctor":        {"doctor"},
	} {
		trace := b.path("trace")
		out, err := b.command([]string{"strace", "-f", "-y", "-o", trace, "-e", "trace=%file,%desc,clone,?clone3,?vfork,?fork,setuid,setsid"}, args...).CombinedOutput()
		if err != nil && name != "doctor" { // which has findings
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		text, err := os.ReadFile(trace)
		b.must(err)
		worked := false
		for pid, line := range privileged(string(text)) {
			if !strings.Contains(line, b.data+"/") && !strings.Contains(line, b.data+">") {
				continue
			}
			worked = true
			if pid == 0 && (name != "doctor" || opensFile.MatchString(line) && !strings.Contains(line, "O_DIRECTORY")) {
				t.Errorf("%s: as root: %s", name, line)
			}
		}
		if !worked {
			t.Errorf("%s: nothing was done in the data directory: this proves nothing", name)
		}
		// Who can write to the terminal of root's session can type on it (TIOCSTI).
		if name != "doctor" && !strings.Contains(string(text), "setsid(") {
			t.Errorf("%s: the process of the other user has root's terminal", name)
		}
	}
}

// opensFile matches the line of a trace in which the opening of a file begins.
var opensFile = regexp.MustCompile(` open(at2?)?\(`)

// privileged yields the lines of a trace, with 0 for those of processes that are still
// root's and another number for the rest.
func privileged(trace string) func(yield func(pid int, line string) bool) {
	made := regexp.MustCompile(`(?m)^(\d+) +(?:<\.\.\. )?(?:clone3?|v?fork)\b.* = (\d+)`)
	parents, dropped := map[string]string{}, map[string]bool{}
	for _, m := range made.FindAllStringSubmatch(trace, -1) {
		parents[m[2]] = m[1]
	}
	for _, m := range regexp.MustCompile(`(?m)^(\d+) +setuid\(`+strconv.Itoa(nobody)+`(?:\) += 0| <unfinished)`).FindAllStringSubmatch(trace, -1) {
		dropped[m[1]] = true
	}
	return func(yield func(int, string) bool) {
		for line := range strings.Lines(trace) {
			pid, _, _ := strings.Cut(line, " ")
			who := 0
			for at := pid; at != ""; at = parents[at] {
				if dropped[at] {
					who = nobody
				}
			}
			if !yield(who, strings.TrimSpace(line)) {
				return
			}
		}
	}
}
