package attacktest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
)

// What was possible: an ext4 that has met an error refuses every write, although the mount
// and the mode of each file say that they can be written; a gateway that was started there
// called its database damaged and did not come up. Whatever refuses the writes, and however
// the last run ended: it starts, a client that was logged in opens a door, the records are in
// memory and in the system log, and they are stored once the disk takes writes. The long
// form has more faults.
func TestAttack_unwritable(t *testing.T) {
	need.Root(t)
	if !isolated(t, "mke2fs", "tune2fs", "chattr", "setpriv", "strace") {
		return
	}
	for _, f := range faults() {
		if f.rare && !gatewaytest.Torture() {
			continue
		}
		for end, stop := range map[string]func(*gatewaytest.Program){
			"SIGTERM": func(p *gatewaytest.Program) { _ = p.Stop() },
			"SIGKILL": (*gatewaytest.Program).Kill,
			"damaged": func(p *gatewaytest.Program) { _ = p.Stop() },
		} {
			t.Run(f.name+"/"+end, func(t *testing.T) {
				t.Parallel()
				f.opens(t, stop, end == "damaged")
			})
		}
	}
}

// diskFault makes a disk or a file on it refuse writes.
type diskFault struct {
	name string
	fail func(t *testing.T, disk, data string)
	heal func(t *testing.T, disk, data string) // nil: only another mount can
	wrap []string                              // of the second start
	busy bool                                  // fails only while nothing has a file open
	open bool                                  // the files that are there take writes
	rare bool                                  // for the long form alone
	says string                                // part of the finding
}

func faults() []diskFault {
	chattr := func(sign string, names ...string) func(t *testing.T, disk, data string) {
		return func(t *testing.T, _, data string) {
			for _, name := range names {
				if _, err := os.Stat(filepath.Join(data, name)); err == nil {
					run(t, "chattr", sign+"i", filepath.Join(data, name))
				}
			}
		}
	}
	const nobody = 65534
	chown := func(uid int, mode os.FileMode) func(t *testing.T, disk, data string) {
		return func(t *testing.T, _, data string) {
			for _, name := range []string{"gatehouse.db", "gatehouse.db-wal"} {
				path := filepath.Join(data, name)
				check(t, ignoreMissing(os.Chown(path, uid, uid)))
				check(t, ignoreMissing(os.Chmod(path, mode)))
			}
		}
	}
	remount := func(flags uintptr) func(t *testing.T, disk, data string) {
		return func(t *testing.T, disk, _ string) { check(t, unix.Mount("", disk, "", unix.MS_REMOUNT|flags, "")) }
	}
	return []diskFault{
		{name: "error", fail: triggerError},
		{name: "read-only", fail: remount(unix.MS_RDONLY), heal: remount(0), busy: true},
		{
			name: "full", fail: func(t *testing.T, disk, _ string) { fill(t, filepath.Join(disk, "fill")) },
			heal: func(t *testing.T, disk, _ string) { check(t, os.Remove(filepath.Join(disk, "fill"))) },
		},
		{ // kernels without quotas are common
			name: "quota", says: "it is full", fail: func(*testing.T, string, string) {},
			wrap: []string{"strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EDQUOT"},
		},
		{name: "immutable database", fail: chattr("+", "gatehouse.db"), heal: chattr("-", "gatehouse.db")},
		{name: "immutable log", fail: chattr("+", "gatehouse.db-wal"), heal: chattr("-", "gatehouse.db-wal")},
		{name: "immutable folder", rare: true, fail: chattr("+", "", "gatehouse.db"), heal: chattr("-", "", "gatehouse.db")},
		{name: "foreign owner", rare: true, fail: chown(0, 0o644), heal: chown(nobody, 0o600)},
		{name: "unreadable", fail: chown(0, 0o600), heal: chown(nobody, 0o600)},
		{
			name: "folder of another user", rare: true, open: true,
			fail: func(t *testing.T, _, data string) { check(t, os.Chown(data, 0, 0)); check(t, os.Chmod(data, 0o755)) },
			heal: func(t *testing.T, _, data string) { check(t, os.Chown(data, nobody, nobody)) },
		},
		{
			name: "failing sync", rare: true, fail: func(*testing.T, string, string) {},
			wrap: []string{"strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO"},
		},
	}
}

// opens runs a gateway, has its disk fail, and starts it again.
func (f *diskFault) opens(t *testing.T, stop func(*gatewaytest.Program), damaged bool) {
	disk := ext4(t)
	data, folder := filepath.Join(disk, "data"), t.TempDir()
	as := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}
	for _, path := range []string{filepath.Dir(folder), filepath.Dir(gatewaytest.Binary(t))} {
		check(t, os.Chmod(path, 0o755)) //nolint:gosec // a directory
	}
	for _, path := range []string{disk, folder} {
		check(t, os.Chown(path, 65534, 65534))
	}
	launch := gatewaytest.Launch{Data: data, Socket: filepath.Join(folder, "admin.sock"), Wrap: as}
	p := gatewaytest.Exec(t, launch)
	p.AddAccount()
	issued := p.Enrol(1042)
	access, refresh := p.Login()
	check(t, p.Stop()) // so that the copy has the login
	p.Start()
	p.AwaitReady()
	if damaged {
		stop(p)
		for page := range int64(8) {
			flip(t, filepath.Join(data, "gatehouse.db"), page*damagePage+page*2654435761%damagePage)
			flip(t, filepath.Join(data, "gatehouse.db"), page*damagePage+page%4)
		}
		f.fail(t, disk, data)
	} else {
		if !f.busy {
			f.fail(t, disk, data)
		}
		stop(p)
		if f.busy {
			f.fail(t, disk, data)
		}
	}
	heal := func() {}
	if f.heal != nil {
		heal = sync.OnceFunc(func() { f.heal(t, disk, data) })
	}
	t.Cleanup(heal)
	launch.Wrap = slices.Concat(f.wrap, as)
	p = gatewaytest.Exec(t, launch)
	answering(p, issued.MQTT)
	p.AwaitOnline(1042, true)
	if !p.Unlock(access, issued.StationToken) {
		t.Error("the door does not open")
	}
	if a := p.Do(http.MethodPost, "/v1/auth/refresh", "", tokenBody(t, refresh)); a.Status != http.StatusOK {
		t.Errorf("refreshing: %d %s", a.Status, a.Body)
	}
	if a := p.Do(http.MethodGet, "/readyz", "", nil); a.Status != http.StatusOK {
		t.Errorf("not ready: %d %s", a.Status, a.Body)
	}
	if f.open && !damaged {
		return
	}
	p.Await("the finding says so", func() bool {
		return says(p, health.StorageFailing, f.says) || damaged && raised(p, health.StorageFailing)
	})
	p.Await("the system log has the record", func() bool { return strings.Contains(p.Log(), "record kept in memory") })
	if f.heal == nil {
		return
	}
	heal()
	p.Await("the finding has gone", func() bool { return !raised(p, health.StorageFailing) })
	p.AwaitRecord("the unlock", func(r site.Record) bool { return r.Kind == site.KindUnlock && r.Outcome != site.Requested })
	if v, err := p.Admin.VerifyJournal(t.Context()); err != nil || v.Broken != 0 {
		t.Errorf("verdict %+v, %v", v, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// ext4 mounts an empty file system with errors=remount-ro in the namespaces of the test.
func ext4(t *testing.T) (disk string) {
	t.Helper()
	folder := t.TempDir()
	image, disk := filepath.Join(folder, "image"), filepath.Join(folder, "disk")
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 16<<20))
	check(t, os.Mkdir(disk, 0o755)) //nolint:gosec // for the service's user too
	run(t, "mke2fs", "-q", "-t", "ext4", "-F", "-J", "size=4", "-m", "0", "-E", "lazy_itable_init=0", image)
	run(t, "tune2fs", "-e", "remount-ro", image)
	run(t, "mount", "-t", "ext4", "-o", "loop", image, disk)
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	return disk
}

// triggerError makes an ext4 meet an error.
func triggerError(t *testing.T, disk, _ string) {
	t.Helper()
	var stat syscall.Stat_t
	check(t, syscall.Stat(disk, &stat))
	device, err := os.Readlink("/sys/dev/block/" + deviceNumber(stat.Dev))
	check(t, err)
	check(t, os.WriteFile("/sys/fs/ext4/"+filepath.Base(device)+"/trigger_fs_error", []byte("1"), 0)) //nolint:gosec // it exists
}

// deviceNumber returns the name of a device below /sys/dev/block.
func deviceNumber(dev uint64) string { return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)) }

// run runs a program to its end.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...).CombinedOutput(); err != nil { //nolint:gosec // the test's own
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
