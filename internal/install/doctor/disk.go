package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"gatehouse/internal/board/machine"
)

const (
	// roomFatal and roomLow are how little room the disk may have, in bytes: below the
	// first nothing can be relied on to be written.
	roomFatal = 16 << 20
	roomLow   = 128 << 20

	// copySpare is what stays free beside a copy of the database, which an upgrade and
	// a backup make.
	copySpare = 8 << 20

	// inodesFatal and inodesLow are the same for files.
	inodesFatal = 100
	inodesLow   = 1000
)

// findSpace is the command that shows what takes the room on a disk.
func findSpace(mount machine.Mount) string {
	return "du -xh " + mount.Point + " 2>/dev/null | sort -rh | head -n 20"
}

// checkDisk looks at the file system that has the data.
func checkDisk(ctx context.Context, p *patient, s *sheet) {
	folder, mount, err := p.mount()
	if err != nil {
		s.denied("what disk the data is on", err)
		return
	}
	where := fmt.Sprintf("%s is on %s (%s, %s)", p.settings.Data, mount.Point, mount.Type, mount.Source)
	room, err := p.Machine.Space(folder)
	if err != nil {
		s.denied("how much room the disk has", err)
	} else {
		checkRoom(p, s, room, findSpace(mount), where)
	}
	checkKind(p, s, mount, where)
	if mount.Has("ro") {
		s.fatal("The disk is read-only: nothing is recorded", "look for the reason with dmesg | grep -i ext4; replace the card if it is worn", where)
	}
	for _, option := range []string{"nobarrier", "barrier=0"} {
		if mount.Has(option) {
			s.warn("The disk is mounted so that a power cut can take what was written", "remove "+option+" in /etc/fstab and restart the machine", where)
		}
	}
	checkErrors(ctx, p, s, mount)
	s.fine(fmt.Sprintf("%s free of %s", size(room.Free), size(room.Total)), where)
}

// mount finds the file system of the data directory; before the first start, of the
// folder that it will be made in.
func (p *patient) mount() (folder string, mount machine.Mount, err error) {
	folder = p.settings.Data
	for folder != "/" && !p.Machine.Exists(folder) {
		folder = filepath.Dir(folder)
	}
	if direct, err := p.Machine.Real(folder); err == nil {
		folder = direct
	}
	mount, err = p.Machine.MountOf(folder)
	return folder, mount, err
}

// checkRoom sees that the journal can go on growing.
func checkRoom(p *patient, s *sheet, room machine.Space, find, where string) {
	var held int64
	if info, err := p.Machine.Stat(p.data(databaseFile)); err == nil {
		held = info.Size()
	}
	growth := max(int64(p.settings.Journal.MaxSize)-held, 0)
	evidence := []string{
		fmt.Sprintf("%s free of %s", size(room.Free), size(room.Total)),
		fmt.Sprintf("the database has %s, and journal.max_size is %s", size(held), size(int64(p.settings.Journal.MaxSize))),
		where,
	}
	switch {
	case room.Free < roomFatal:
		s.fatal("The disk is all but full", "make room: "+find, evidence...)
	case room.Free < roomLow, room.Free < growth:
		s.warn("The disk has little room left, and the journal may grow by "+size(growth), "make room ("+find+"), or lower max_size in [journal]", evidence...)
	case room.Free < growth+held+copySpare:
		s.notice("The disk has no room for a copy of the database once the journal has grown; upgrades and backups need one",
			"make room ("+find+"), or lower max_size in [journal]", evidence...)
	}
	inodes := fmt.Sprintf("%d free of %d inodes", room.FreeInodes, room.AllInodes)
	switch {
	case room.AllInodes == 0:
	case room.FreeInodes < inodesFatal:
		s.fatal("The disk takes no more files", "remove files that are not needed", inodes, where)
	case room.FreeInodes < inodesLow:
		s.warn("The disk takes few more files", "remove files that are not needed", inodes, where)
	}
}

// checkKind sees that the file system is one that keeps what it is given.
func checkKind(p *patient, s *sheet, mount machine.Mount, where string) {
	move := "keep the data on an ext4 file system: stop the gateway, move " + p.settings.Data + " there, and set data in the configuration"
	if p.installed() {
		move += "; allow it there: " + allow("/the/path")
	}
	switch mount.Type {
	case "tmpfs", "ramfs":
		s.fatal("The data is kept in memory, and lost when the machine restarts", move, where)
	case "overlay":
		upper, err := p.Machine.MountOf(mount.Option("upperdir"))
		if err == nil && (upper.Type == "tmpfs" || upper.Type == "ramfs") {
			s.fatal("The data is kept in memory, and lost when the machine restarts", move, where, "changes go to "+upper.Point+" ("+upper.Type+")")
			return
		}
		s.notice("The data is on a layer over another file system, and may be lost with it", move, where)
	case "vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk":
		s.warn("The file system does not survive power cuts, and keeps no permissions", move, where)
	case "nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs":
		s.warn("The data is on another machine: doors would depend on the network, and the database may be damaged", move, where)
	}
}

// checkErrors looks for what a failing disk leaves behind.
func checkErrors(ctx context.Context, p *patient, s *sheet, mount machine.Mount) {
	disk, err := p.Machine.DiskOf(mount)
	if err != nil {
		return // checkWear says so
	}
	if count, last := p.Machine.FileSystemErrors(disk.Partition); count > 0 {
		s.warn("The file system has found errors in itself",
			"gatehouse backup FILE; then check it at the next start, with fsck.mode=force on the kernel's command line; replace the card if it happens again",
			fmt.Sprintf("%s: %s", disk.Partition, plural(count, "error")), after("the last in ", last))
	}
	lines := kernelErrors(ctx, p, disk)
	if disk.IOErrors > 0 || len(lines) > 0 {
		s.warn("The disk does not read or write what it should", "gatehouse backup FILE; then replace the card or disk",
			append([]string{fmt.Sprintf("%s: %d errors counted by its driver", disk.Name, disk.IOErrors)}, lines...)...)
	}
}

func after(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// kernelErrors gives the last lines in which the kernel complained of a disk since the
// start of the machine; none where they cannot be read.
func kernelErrors(ctx context.Context, p *patient, disk machine.Disk) []string {
	const most = 3
	if !p.systemd {
		return nil
	}
	text, err := p.Machine.Run(ctx, "journalctl", "--dmesg", "--boot", "--priority=err", "--lines=500", "--output=cat", "--no-pager", "--quiet")
	if err != nil {
		return nil
	}
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "I/O error") && strings.Contains(line, disk.Name) {
			lines = append(lines, "kernel: "+strings.TrimSpace(line))
		}
	}
	return lines[max(len(lines)-most, 0):]
}

// The wear that an eMMC tells, in tenths of its life (JESD84-B51): at wearEnd it has
// none left.
const (
	wearHigh = 9
	wearEnd  = 11
)

// The spare blocks that it has left.
const (
	spareLow    = 2
	spareUrgent = 3
)

// checkWear asks the disk how much it has left of its life.
func checkWear(_ context.Context, p *patient, s *sheet) {
	_, mount, err := p.mount()
	if err != nil {
		s.denied("what disk the data is on", err)
		return
	}
	disk, err := p.Machine.DiskOf(mount)
	if err != nil {
		s.fine("There is no disk to ask: " + mount.Type + " on " + mount.Source)
		return
	}
	written := ""
	if disk.Written >= 0 {
		written = size(disk.Written) + " written since the machine was started"
	}
	if disk.Kind != "eMMC" || len(disk.Wear) == 0 {
		s.fine(untold(disk), disk.Name, written)
		return
	}
	used := 0
	for _, w := range disk.Wear {
		used = max(used, w)
	}
	evidence := []string{fmt.Sprintf("%s: life_time %v (1 is new, 11 is worn out), pre_eol_info %d", disk.Name, disk.Wear, disk.PreEnd), written}
	const mend = "gatehouse backup FILE; then replace the board or its storage, and gatehouse restore FILE"
	switch {
	case used >= wearEnd, disk.PreEnd >= spareUrgent:
		s.fatal("The storage is worn out", mend, evidence...)
	case used >= wearHigh, disk.PreEnd >= spareLow:
		s.warn(fmt.Sprintf("The storage is near the end of its life: up to %d %% is used", min(used, 10)*10), mend, evidence...)
	default:
		s.fine(fmt.Sprintf("Up to %d %% of the storage's life is used", used*10), evidence...)
	}
}

// untold says of a disk that does not tell its wear what can be done.
func untold(disk machine.Disk) string {
	switch disk.Kind {
	case "SD card":
		return "Memory cards do not tell their wear: keep backups, and a spare card"
	case "NVMe", "disk":
		return "Not looked at: smartctl -a /dev/" + disk.Name + " tells the wear of this disk"
	default:
		return "This disk does not tell its wear"
	}
}
