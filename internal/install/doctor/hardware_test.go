package doctor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/sqlite"
)

const room = "du -xh / 2>/dev/null | sort -rh | head -n 20"

// mount puts the data on another file system.
func (w *ward) mount(line string) {
	w.put("/proc/self/mountinfo", "22 1 179:2 / / rw - ext4 /dev/root rw\n23 22 0:21 / /run rw - tmpfs tmpfs rw\n"+line+"\n", 0o444, 0)
}

func ofDisk() []illness {
	const move = "keep the data on an ext4 file system: stop the gateway, move /var/lib/gatehouse there, and set data in the configuration; " +
		"allow it there: systemctl edit gatehouse, and write: [Service], ReadWritePaths=/the/path, each on a line; then systemctl restart gatehouse"
	const device = "/sys/devices/platform/mmc0/block/mmcblk0/device"
	return []illness{
		{"disk full", func(_ *testing.T, w *ward) { w.room.Free = 10 << 20 }, []string{"fatal disk: The disk is all but full > make room: " + room}, "10.5 MB free of 8.0 GB"},
		{"disk low", func(_ *testing.T, w *ward) { w.room.Free = 100 << 20 }, []string{
			"warning disk: The disk has little room left, and the journal may grow by 256.0 MB > make room (" + room + "), or lower max_size in [journal]",
		}, "journal.max_size is 256.0 MB"},
		{"disk lower than the journal", func(_ *testing.T, w *ward) {
			w.room.Free = 500e6
			w.config = configText + "[journal]\nmax_size = \"600MB\"\n"
		}, []string{
			"warning disk: The disk has little room left, and the journal may grow by 600.0 MB > make room (" + room + "), or lower max_size in [journal]",
		}, ""},
		{"no room for a copy", func(_ *testing.T, w *ward) { w.room.Free = 257e6 }, []string{
			"notice disk: The disk has no room for a copy of the database once the journal has grown; upgrades and backups need one > make room (" + room + "), or lower max_size in [journal]",
		}, ""},
		{"no inodes", func(_ *testing.T, w *ward) { w.room.FreeInodes = 3 }, []string{"fatal disk: The disk takes no more files > remove files that are not needed"}, "3 free of 500000 inodes"},
		{"few inodes", func(_ *testing.T, w *ward) { w.room.FreeInodes = 300 }, []string{"warning disk: The disk takes few more files > remove files that are not needed"}, ""},
		{"inodes uncounted", func(_ *testing.T, w *ward) { w.room.FreeInodes, w.room.AllInodes = 0, 0 }, nil, ""},
		{"read-only", func(_ *testing.T, w *ward) { w.mount("40 22 179:2 / /var/lib ro - ext4 /dev/root rw") }, []string{
			"fatal disk: The disk is read-only: nothing is recorded > look for the reason with dmesg | grep -i ext4; replace the card if it is worn",
		}, "/var/lib/gatehouse is on /var/lib (ext4, /dev/root)"},
		{"in memory", func(_ *testing.T, w *ward) { w.mount("40 22 0:40 / /var rw - tmpfs tmpfs rw") }, []string{
			"fatal disk: The data is kept in memory, and lost when the machine restarts > " + move,
		}, ""},
		{"over memory", func(_ *testing.T, w *ward) {
			w.mount("40 22 0:40 / /var rw - overlay overlayroot rw,lowerdir=/,upperdir=/run/up,workdir=/run/work")
		}, []string{"fatal disk: The data is kept in memory, and lost when the machine restarts > " + move}, "changes go to /run (tmpfs)"},
		{"on a layer", func(_ *testing.T, w *ward) {
			w.mount("40 22 0:40 / /var rw - overlay overlay rw,lowerdir=/,upperdir=/up,workdir=/work")
		}, []string{"notice disk: The data is on a layer over another file system, and may be lost with it > " + move}, ""},
		{"on a stick", func(_ *testing.T, w *ward) { w.mount("40 22 8:1 / /var rw - vfat /dev/sda1 rw") }, []string{
			"warning disk: The file system does not survive power cuts, and keeps no permissions > " + move,
		}, ""},
		{"on the network", func(_ *testing.T, w *ward) { w.mount("40 22 0:50 / /var rw - nfs4 nas:/x rw") }, []string{
			"warning disk: The data is on another machine: doors would depend on the network, and the database may be damaged > " + move,
		}, ""},
		{"without barriers", func(_ *testing.T, w *ward) { w.mount("40 22 179:2 / /var rw - ext4 /dev/root rw,nobarrier") }, []string{
			"warning disk: The disk is mounted so that a power cut can take what was written > remove nobarrier in /etc/fstab and restart the machine",
		}, ""},
		{"errors in the file system", func(_ *testing.T, w *ward) {
			w.put("/sys/fs/ext4/mmcblk0p2/errors_count", "2", 0o444, 0)
			w.put("/sys/fs/ext4/mmcblk0p2/last_error_func", "ext4_lookup", 0o444, 0)
		}, []string{
			"warning disk: The file system has found errors in itself > gatehouse backup FILE; then check it at the next start, with fsck.mode=force on the kernel's command line; replace the card if it happens again",
		}, "disk: mmcblk0p2: 2 errors\ndisk: the last in ext4_lookup"},
		{"errors of the disk", func(_ *testing.T, w *ward) {
			w.outputs["journalctl --dmesg"] = "I/O error, dev sda, sector 1\nI/O error, dev mmcblk0, sector 1\nusb 1-1: device not accepting address\n"
		}, []string{"warning disk: The disk does not read or write what it should > " + backupFirst}, "kernel: I/O error, dev mmcblk0, sector 1"},
		{"errors of another disk", func(_ *testing.T, w *ward) { w.outputs["journalctl --dmesg"] = "I/O error, dev sda, sector 1\n" }, nil, ""},
		{"errors counted", func(_ *testing.T, w *ward) { w.put(device+"/ioerr_cnt", "0x7", 0o444, 0) }, []string{
			"warning disk: The disk does not read or write what it should > " + backupFirst,
		}, "mmcblk0: 7 errors counted by its driver"},
		{"worn", func(_ *testing.T, w *ward) { w.put(device+"/life_time", "0x09 0x02", 0o444, 0) }, []string{
			"warning wear: The storage is near the end of its life: up to 90 % is used > gatehouse backup FILE; then replace the board or its storage, and gatehouse restore FILE",
		}, "life_time [9 2]"},
		{"worn out", func(_ *testing.T, w *ward) { w.put(device+"/life_time", "0x0b 0x02", 0o444, 0) }, []string{
			"fatal wear: The storage is worn out > gatehouse backup FILE; then replace the board or its storage, and gatehouse restore FILE",
		}, ""},
		{"out of spare blocks", func(_ *testing.T, w *ward) { w.put(device+"/pre_eol_info", "0x03", 0o444, 0) }, []string{
			"fatal wear: The storage is worn out > gatehouse backup FILE; then replace the board or its storage, and gatehouse restore FILE",
		}, "pre_eol_info 3"},
		{"solid state disk", func(_ *testing.T, w *ward) {
			w.mount("40 22 259:1 / /var rw - ext4 /dev/nvme0n1p1 rw")
			w.link("/sys/dev/block/259:1", "../../devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p1")
			w.put("/sys/devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p1/partition", "1", 0o444, 0)
		}, nil, "wear: nvme0n1\n"},
		{"no disk", func(_ *testing.T, w *ward) { w.mount("40 22 0:60 / /var rw - btrfs /dev/x rw") }, nil, ""},
		{"no mounts", func(_ *testing.T, w *ward) { w.remove("/proc/self/mountinfo") }, []string{
			"unchecked disk: what disk the data is on cannot be read: open proc/self/mountinfo: file does not exist > ",
			"unchecked wear: what disk the data is on cannot be read: open proc/self/mountinfo: file does not exist > ",
		}, ""},
		{"memory card", func(_ *testing.T, w *ward) {
			w.put(device+"/type", "SD", 0o444, 0)
			w.remove(device+"/life_time", device+"/pre_eol_info")
		}, nil, "wear: 1.0 GB written since the machine was started"},
	}
}

func ofDatabase() []illness {
	const keep = "keep a copy of /var/lib/gatehouse, then put a backup in its place: gatehouse restore FILE"
	return []illness{
		{"damaged", func(_ *testing.T, w *ward) { w.state.Damage = "Tree 4 page 7: out of order" }, []string{"fatal database: The database is damaged > " + keep}, "Tree 4 page 7"},
		{"no database", func(_ *testing.T, w *ward) { w.stateErr = fault.New(fault.Invalid, "text.db is no database") }, []string{"fatal database: The database cannot be used > " + keep}, "text.db is no database"},
		{"database gone", func(_ *testing.T, w *ward) { w.stateErr = fault.New(fault.NotFound, "none") }, []string{
			"fatal database: The gateway runs, and its database is gone > gatehouse backup FILE, before anything else; then gatehouse restore FILE",
		}, ""},
		{"no database yet", func(_ *testing.T, w *ward) {
			w.stop()
			w.stateErr, w.state = fault.New(fault.NotFound, "none"), sqlite.FileState{}
		}, []string{
			"fatal gateway: The gateway is stopped > systemctl start gatehouse",
			"notice database: There is no database yet: the gateway makes it at its first start > systemctl start gatehouse", stationsUnknown,
		}, ""},
		{"database forbidden", func(_ *testing.T, w *ward) { w.stateErr = fault.New(fault.Forbidden, "no") }, []string{
			"unchecked database: this user may not read the database > sudo gatehouse doctor",
		}, ""},
		{"database slow", func(_ *testing.T, w *ward) { w.stateErr = context.DeadlineExceeded }, []string{
			"unchecked database: looking at the whole database takes longer than 25s > sudo gatehouse doctor --deep",
		}, ""},
		{"database unreadable", func(_ *testing.T, w *ward) { w.stateErr = fault.New(fault.Unavailable, "The disk fails") }, []string{
			"unchecked database: the database cannot be read: The disk fails > ",
		}, ""},
		{"newer schema", func(_ *testing.T, w *ward) { w.state.Schema = 3 }, []string{
			"fatal database: The database is of a newer version of gatehouse > install that version again, or go back with: gatehouse restore /var/lib/gatehouse/gatehouse.db.schema2",
		}, "this version knows schema 2"},
		{"newer schema of the gateway that runs", func(_ *testing.T, w *ward) { w.state.Schema, w.status.Version = 3, "1.3.0" }, []string{
			"notice gateway: The gateway that runs is version 1.3.0, and this program is 1.2.3 > systemctl restart gatehouse",
			"notice database: The database was not judged: this program is version 1.2.3, the gateway runs 1.3.0 > examine it with the gateway's own program, which readlink /proc/812/exe names",
		}, ""},
		{"database with several errors", func(_ *testing.T, w *ward) {
			w.stateErr = fault.New(fault.Invalid, "no database\nand no log\n")
		}, []string{"fatal database: The database cannot be used > " + keep}, "no database; and no log\n"},
		{"older schema", func(_ *testing.T, w *ward) { w.state.Schema = 1 }, []string{
			"notice database: The database is of an older version: the next start brings it forward > systemctl restart gatehouse",
		}, ""},
		{"large log", func(_ *testing.T, w *ward) { w.state.Log = 100 << 20 }, []string{
			"warning database: The log of the database has grown large: something keeps it open > systemctl restart gatehouse",
		}, "104.9 MB in its log"},
		{"copies", func(_ *testing.T, w *ward) {
			w.put("/var/lib/gatehouse/gatehouse.db.schema1", strings.Repeat("x", 1500), 0o600, gatewayUser)
			w.put("/var/lib/gatehouse/gatehouse.db.copy", "in use", 0o600, gatewayUser)
			w.put("/var/lib/gatehouse/before-restore-20260101/gatehouse.db", strings.Repeat("x", 500), 0o600, gatewayUser)
		}, []string{
			"notice database: Old copies of the data take 2.0 kB > rm -r what is no longer needed, once the gateway has run well for some days",
		}, "/var/lib/gatehouse/before-restore-20260101 (500 B)"},
		{"journal unverified", func(_ *testing.T, w *ward) { w.verdict.Broken = 7 }, nil, ""},
		{"journal changed", func(_ *testing.T, w *ward) {
			w.cfg.Deep = true
			w.verdict.Broken, w.verdict.Why = 7, "the record is missing"
		}, []string{
			"fatal database: Someone changed or removed records of the journal > keep a copy of the database as evidence, and find out who could write to it",
		}, "record 7: the record is missing"},
		{"journal changed while it is stopped", func(_ *testing.T, w *ward) {
			w.stop()
			w.cfg.Deep = true
			w.verdict.Broken, w.verdict.Why = 7, "the record is missing"
		}, []string{
			"fatal gateway: The gateway is stopped > systemctl start gatehouse",
			"fatal database: Someone changed or removed records of the journal > keep a copy of the database as evidence, and find out who could write to it",
			stationsUnknown,
		}, ""},
	}
}

func ofClock() []illness {
	chrony := func(w *ward) {
		w.units["systemd-timesyncd.service"]["ActiveState"] = "inactive"
		w.units["chrony.service"] = map[string]string{"Id": "chrony.service", "ActiveState": "active"}
		w.units["chronyd.service"] = w.units["chrony.service"]
		w.remove("/run/systemd/timesync/synchronized")
	}
	return []illness{
		{"hidden clock", func(_ *testing.T, w *ward) { chrony(w) }, []string{
			"warning clock: The system's clock is right, and the gateway cannot see it: its sandbox shows only what systemd-timesyncd does > " +
				"systemctl edit gatehouse, and write: [Service], ProtectClock=no, SystemCallFilter=adjtimex, each on a line; then systemctl restart gatehouse",
		}, "time services: chrony.service\n"},
		{"clock shown", func(_ *testing.T, w *ward) {
			chrony(w)
			w.unit()["ProtectClock"] = "no"
		}, nil, "the gateway's time is 2026-11-21 08:00:00 UTC"},
		{"chrony waits", func(_ *testing.T, w *ward) {
			chrony(w)
			w.kernel = false
		}, []string{
			"notice clock: No time server has answered yet > chronyc sources -v; name a time server that this machine reaches in /etc/chrony/chrony.conf",
		}, ""},
		{"timesyncd waits", func(_ *testing.T, w *ward) { w.kernel = false }, []string{
			"notice clock: No time server has answered yet > timedatectl timesync-status; name a time server that this machine reaches in /etc/systemd/timesyncd.conf",
		}, ""},
		{"no time service", func(_ *testing.T, w *ward) {
			w.kernel = false
			w.units["systemd-timesyncd.service"]["ActiveState"] = "inactive"
			w.remove("/dev/rtc0")
		}, []string{"warning clock: Nothing keeps the system's clock right > apt-get install systemd-timesyncd; timedatectl set-ntp true"}, "it has no battery-backed clock"},
		{"no time service known", func(_ *testing.T, w *ward) {
			w.kernel = false
			w.withoutSystemd()
		}, []string{
			"warning clock: Nobody says that the system's clock is right > have a time service keep it, such as chrony or ntpd",
			"notice service: systemd does not run this machine: nothing starts the gateway again when it ends > run it under a program that does",
		}, ""},
		{"behind the floor", func(_ *testing.T, w *ward) { w.state.Floor = now().Add(3 * time.Hour) }, []string{
			"warning clock: The system's clock is 3 hours behind the last time that was sure > check the date and the time servers of this machine: timedatectl; if they are right and were wrong before: gatehouse clock reset",
		}, "the last sure time is 2026-11-21 11:00:00 UTC"},
		{"before the program", func(_ *testing.T, w *ward) { w.cfg.Built = now().Add(60 * time.Hour) }, []string{
			"warning clock: The system's clock stands before the day on which this program was made > set the clock: timedatectl set-ntp true",
		}, "this program was made at 2026-11-23 20:00:00 UTC"},
	}
}
