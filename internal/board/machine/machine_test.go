package machine_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"gatehouse/internal/board/machine"
)

// newMachine returns a machine with these files; a value that begins with "-> " is a
// symbolic link.
func newMachine(files map[string]string) machine.Machine {
	tree := make(fstest.MapFS)
	for path, text := range files {
		file := &fstest.MapFile{Data: []byte(text), Mode: 0o644}
		if target, link := strings.CutPrefix(text, "-> "); link {
			file = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		}
		tree[strings.TrimPrefix(path, "/")] = file
	}
	return machine.Machine{Files: tree}
}

const mountinfo = `22 1 179:2 / / rw,noatime shared:1 - ext4 /dev/root rw,errors=remount-ro
23 22 0:21 / /run rw,nosuid shared:5 - tmpfs tmpfs rw,size=51200k
40 22 179:3 / /var/lib rw - ext4 /dev/mmcblk0p3 ro
41 22 0:40 / /srv/a\040b ro,relatime - overlay overlay rw,lowerdir=/low,upperdir=/run/up,workdir=/run/work
42 40 0:41 / /var/lib rw shared:9 master:3 - tmpfs late rw
nonsense
`

func TestMachine_MountOf(t *testing.T) {
	m := newMachine(map[string]string{"/proc/self/mountinfo": mountinfo})
	for _, test := range []struct{ path, point, kind, source string }{
		{"/", "/", "ext4", "/dev/root"},
		{"/home/x", "/", "ext4", "/dev/root"},
		{"/runner", "/", "ext4", "/dev/root"},
		{"/run/gatehouse", "/run", "tmpfs", "tmpfs"},
		{"/var/lib/gatehouse", "/var/lib", "tmpfs", "late"}, // it hides the other
		{"/srv/a b/c", "/srv/a b", "overlay", "overlay"},
	} {
		mt, err := m.MountOf(test.path)
		if err != nil || mt.Point != test.point || mt.Type != test.kind || mt.Source != test.source {
			t.Errorf("%s is on %+v, %v", test.path, mt, err)
		}
	}
	overlay, err := m.MountOf("/srv/a b")
	if err != nil || !overlay.Has("ro") || overlay.Option("upperdir") != "/run/up" || overlay.Option("none") != "" {
		t.Errorf("options %v, %v", overlay.Options, err)
	}
	if _, err := newMachine(nil).MountOf("/"); err == nil {
		t.Error("a machine without mounts has one")
	}
}

func emmc() map[string]string {
	const disk = "/sys/devices/platform/soc/mmc0/mmc0:0001/block/mmcblk0"
	return map[string]string{
		"/sys/dev/block/179:2":                   "-> ../../devices/platform/soc/mmc0/mmc0:0001/block/mmcblk0/mmcblk0p2",
		disk + "/mmcblk0p2/partition":            "2",
		disk + "/stat":                           "  1 2 3 4 5 6 2000 8 9 10 11",
		disk + "/device/type":                    "MMC\n",
		disk + "/device/life_time":               "0x02 0x0a\n",
		disk + "/device/pre_eol_info":            "0x02\n",
		"/sys/fs/ext4/mmcblk0p2/errors_count":    "3\n",
		"/sys/fs/ext4/mmcblk0p2/last_error_func": "ext4_lookup\n",
	}
}

func TestMachine_DiskOf(t *testing.T) {
	m := newMachine(emmc())
	d, err := m.DiskOf(machine.Mount{Device: "179:2"})
	if err != nil || d.Name != "mmcblk0" || d.Partition != "mmcblk0p2" || d.Kind != "eMMC" || d.Written != 2000*512 ||
		!slices.Equal(d.Wear, []int{2, 10}) || d.PreEnd != 2 {
		t.Errorf("disk %+v, %v", d, err)
	}
	if count, last := m.FileSystemErrors(d.Partition); count != 3 || last != "ext4_lookup" {
		t.Errorf("%d errors, the last in %s", count, last)
	}
	if _, err := m.DiskOf(machine.Mount{Device: "0:21", Source: "tmpfs"}); err == nil {
		t.Error("a file system in memory has a disk")
	}
}

// An encrypted disk is asked through its mapper.
func TestMachine_DiskOf_below(t *testing.T) {
	m := newMachine(map[string]string{
		"/sys/dev/block/254:0":                         "-> ../../devices/virtual/block/dm-0",
		"/sys/devices/virtual/block/dm-0/slaves/sda2":  "-> ../../../../pci0/block/sda/sda2",
		"/sys/devices/pci0/block/sda/sda2/partition":   "2",
		"/sys/devices/pci0/block/sda/device/ioerr_cnt": "0x5\n",
	})
	d, err := m.DiskOf(machine.Mount{Device: "254:0"})
	if err != nil || d.Name != "sda" || d.Partition != "dm-0" || d.Kind != "disk" || d.IOErrors != 5 || d.Written != -1 {
		t.Errorf("disk %+v, %v", d, err)
	}
}

func TestMachine_Sockets(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	m := newMachine(map[string]string{
		"/proc/net/tcp": head +
			"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1\n" +
			"   1: 0100007F:1F90 0100007F:8000 01 00000000:00000000 00:00000000 00000000     0        0 102 1\n" +
			"   2: nonsense\n",
		"/proc/net/tcp6": head +
			"   0: 00000000000000000000000000000000:075B 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 103 1\n" +
			"   1: 0000000000000000FFFF00000100007F:01BB 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 104 1\n",
		"/proc/1/fd/7": "-> socket:[103]", "/proc/1/comm": "systemd\n",
		"/proc/812/fd/3": "-> socket:[103]", "/proc/812/comm": "gatehouse\n", "/proc/812/fd/1": "-> /dev/null",
		"/proc/net/other": "",
	})
	sockets, err := m.Sockets()
	want := []machine.Socket{
		{Address: netip.MustParseAddrPort("127.0.0.1:8080"), Inode: "101"},
		{Address: netip.MustParseAddrPort("[::]:1883"), Inode: "103"},
		{Address: netip.MustParseAddrPort("127.0.0.1:443"), Inode: "104"},
	}
	if err != nil || !slices.Equal(sockets, want) {
		t.Errorf("sockets %v, %v", sockets, err)
	}
	held := m.Holders()
	if len(held) != 1 || len(held["103"]) != 2 || held["103"][1].Name != "gatehouse" || held["103"][1].ID != 812 {
		t.Errorf("holders %v", held)
	}
}

func TestMachine_LockHolder(t *testing.T) {
	m := newMachine(map[string]string{
		"/proc/locks": "1: POSIX  ADVISORY  READ 7 fe:01:77 0 EOF\n" +
			"2: FLOCK  ADVISORY  WRITE 700 fe:02:77 0 EOF\n" + // another file system's
			"3: FLOCK  ADVISORY  WRITE 812 fe:01:77 0 EOF\n",
		"/proc/700/comm": "dpkg", "/proc/812/comm": "gatehouse\n",
	})
	tree, ok := m.Files.(fstest.MapFS)
	if !ok {
		t.Fatal("no tree")
	}
	tree["data/lock"] = &fstest.MapFile{Sys: &syscall.Stat_t{Ino: 77}}
	tree["data/free"] = &fstest.MapFile{Sys: &syscall.Stat_t{Ino: 78}}
	if got := m.LockHolder("/data/lock"); got != 812 {
		t.Errorf("process %d has the lock", got)
	}
	if m.LockHolder("/data/free") != 0 || m.LockHolder("/data/none") != 0 {
		t.Error("a free lock has a holder")
	}
}

func TestMachine_figures(t *testing.T) {
	m := newMachine(map[string]string{
		"/proc/meminfo":    "MemTotal:  512000 kB\nMemAvailable:   256000 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB\n",
		"/proc/812/status": "Name:\tgatehouse\nVmRSS:\t   40960 kB\n", "/proc/812/comm": "gatehouse\n",
		"/sys/fs/cgroup/system.slice/gatehouse.service/memory.events": "low 0\nhigh 3\noom 2\noom_kill 2\n",
		"/sys/devices/platform/soc/soc:firmware/get_throttled":        "0x50000\n",
		"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\ngatehouse:x:997:997::/:/bin/false\n",
	})
	if got := m.Memory(); got != (machine.Memory{Total: 512000 << 10, Available: 256000 << 10, SwapTotal: 100 << 10, SwapFree: 40 << 10}) {
		t.Errorf("memory %+v", got)
	}
	if got := m.Process(812); got != (machine.Process{ID: 812, Name: "gatehouse", Resident: 40 << 20}) {
		t.Errorf("process %+v", got)
	}
	if got := m.KilledForMemory("/system.slice/gatehouse.service"); got != 2 {
		t.Errorf("%d killed", got)
	}
	if bits, known := m.Throttled(); bits != 0x50000 || !known {
		t.Errorf("throttled %x, %t", bits, known)
	}
	if uid, known := m.UserID("gatehouse"); uid != 997 || !known {
		t.Errorf("user %d, %t", uid, known)
	}
	blank := newMachine(nil)
	_, throttled := blank.Throttled()
	_, user := blank.UserID("gatehouse")
	if throttled || user || blank.Memory().Total != 0 || blank.KilledForMemory("/x") != 0 || blank.HasSystemd() {
		t.Error("a machine that says nothing is thought to say something")
	}
}

func TestMachine_Units(t *testing.T) {
	var asked []string
	m := newMachine(nil)
	m.Run = func(_ context.Context, program string, args ...string) (string, error) {
		asked = append([]string{program}, args...)
		return "LoadState=loaded\nDropInPaths=/a /b\nSince=60000000\nN=3\nEnvironment=A=1 B=2\n\nLoadState=not-found\nSince=0\n", nil
	}
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	m.Now = func() time.Time { return now }
	m.Uptime = func() (time.Duration, error) { return time.Hour, nil }
	units, err := m.Units(t.Context(), []string{"LoadState", "N"}, "a.service", "b.service")
	if err != nil || len(units) != 2 || !units[0].Loaded() || units[1].Loaded() || units[0].Number("N") != 3 || len(units[0].List("DropInPaths")) != 2 {
		t.Fatalf("units %v, %v", units, err)
	}
	if want := []string{"systemctl", "show", "--no-pager", "--property=LoadState,N", "a.service", "b.service"}; !slices.Equal(asked, want) {
		t.Errorf("asked %v", asked)
	}
	if at, ok := units[0].Moment(m, "Since"); !ok || !at.Equal(now.Add(-59*time.Minute)) {
		t.Errorf("since %s, %t", at, ok)
	}
	if _, ok := units[1].Moment(m, "Since"); ok {
		t.Error("never was some time")
	}
}

// This machine answers, whatever it is.
func TestThis(t *testing.T) {
	m := machine.This()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if out, err := m.Run(ctx, "echo", "a"); err != nil || out != "a\n" {
		t.Errorf("echo gives %q, %v", out, err)
	}
	if _, err := m.Run(ctx, "no-such-program"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("a program that does not exist gives %v", err)
	}
	if _, err := m.Run(ctx, "sh", "-c", "echo of no use >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "of no use") {
		t.Errorf("a program that fails gives %v", err)
	}
	short, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	if _, err := m.Run(short, "sleep", "60"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a program that hangs gives %v", err)
	}
	if room, err := m.Space("/"); err != nil || room.Total <= 0 || room.Free < 0 {
		t.Errorf("room %+v, %v", room, err)
	}
	if up, err := m.Uptime(); err != nil || up <= 0 {
		t.Errorf("up for %s, %v", up, err)
	}
	if _, err := m.MountOf(t.TempDir()); err != nil {
		t.Errorf("no mount: %v", err)
	}
	if m.Memory().Total == 0 || m.Process(1).Name == "" {
		t.Error("no memory, or no first process")
	}
	if err := m.Connect(ctx, "127.0.0.1:0"); err == nil {
		t.Error("port 0 can be reached")
	}
}
