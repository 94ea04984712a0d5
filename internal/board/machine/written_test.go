package machine_test

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/machine"
)

func TestMachine_Written(t *testing.T) {
	files := fstest.MapFS{
		"data":                       {Mode: fs.ModeDir, Sys: &syscall.Stat_t{Dev: unix.Mkdev(179, 4)}},
		"memory":                     {Mode: fs.ModeDir, Sys: &syscall.Stat_t{Dev: unix.Mkdev(0, 25)}},
		"sys/dev/block/179:4/stat":   {Data: []byte("    4521      112   153042     9120     2001      733    48828    18231        0    15604    27351\n")},
		"sys/dev/block/179:4/uevent": {Data: []byte("MAJOR=179\nMINOR=4\nDEVNAME=mmcblk0p4\nDEVTYPE=partition\n")},
		"proc/uptime":                {Data: []byte("86663.25 59401.97\n")},
	}
	m := machine.Machine{Files: files}
	written, partition, err := m.Written("/data")
	if written != 48828*512 || partition != "mmcblk0p4" || err != nil {
		t.Errorf("%d bytes to %q, %v", written, partition, err)
	}
	for _, path := range []string{"/memory", "/none"} {
		if _, _, err := m.Written(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	up, err := m.Uptime()
	if up != 86663250*time.Millisecond || err != nil {
		t.Errorf("up for %s, %v", up, err)
	}
	files["sys/dev/block/179:4/stat"].Data, files["proc/uptime"].Data = []byte("1 2 3\n"), []byte("\n")
	if _, _, err := m.Written("/data"); err == nil {
		t.Error("statistics that are none were read")
	}
	if _, err := m.Uptime(); err == nil {
		t.Error("a time that is none was read")
	}
}
