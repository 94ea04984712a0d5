// Package slot is the two slots of a board that was started from an image of ours: which
// one runs, which one is the default, their kernels and entries on the boot partition,
// and the one shot that makes the next start try the other slot. It also has the two
// files by which the gateway, as the service user, asks root for an update and reads how
// it goes. It decides nothing: internal/install/update does.
//
// Its promise: a power cut at any moment of any of its writes leaves a board that starts
// the old default or the new one. The commit is one byte of one sector. What starts (the
// running slot and the default) is never written to.
package slot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
)

// Name is the letter of a slot.
type Name string

// The slots.
const (
	A Name = "a"
	B Name = "b"
)

// Other returns the other slot.
func (n Name) Other() Name {
	if n == A {
		return B
	}
	return A
}

// Where the image says what it is, and where its boot partition is.
const (
	commandLine = "/proc/cmdline"
	osRelease   = "/usr/lib/os-release"
	familyFile  = "/usr/lib/gatehouse-image/family"
	bootFolder  = "/boot/efi"
)

// maxFile bounds the small files that are read here, in bytes.
const maxFile = 64 << 10

// Board is a board with two slots. Its methods are for root, and not to be called
// concurrently: the caller holds the lock of updates.
type Board struct {
	root            string
	family, version string
	running         Name
	remount         func(folder string, readOnly bool) error
	reread          func(path string, size int64) ([sha256.Size]byte, error)
}

// Open returns the board that this is. The error is NotFound where this system was not
// started from an image of ours, and Conflict where the image is an older one that has no
// slots.
func Open() (*Board, error) { return OpenAt("/") }

// OpenAt is Open for a folder that has /proc, /sys, /dev, /usr/lib and /boot/efi of a
// board. Nothing is mounted there.
func OpenAt(root string) (*Board, error) {
	b := &Board{root: root, reread: reread, remount: func(string, bool) error { return nil }}
	if root == "/" {
		b.remount = remount
	}
	release, err := b.read(osRelease)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if value(release, "IMAGE_ID") != "gatehouse" {
		return nil, fault.New(fault.NotFound, "This system was not started from an image of Gatehouse")
	}
	b.version = value(release, "IMAGE_VERSION")
	family, err := b.read(familyFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b.family = strings.TrimSpace(family)
	line, err := b.read(commandLine)
	if err != nil {
		return nil, err
	}
	for word := range strings.FieldsSeq(line) {
		if letter, found := strings.CutPrefix(word, "gatehouse.slot="); found {
			b.running = Name(letter)
		}
	}
	if b.version == "" || b.family == "" || b.running != A && b.running != B {
		return nil, fault.New(fault.Conflict, "This system was started from an older image of Gatehouse, which cannot be updated in place: "+
			"make a backup, write the new image to the card once, and restore the backup")
	}
	return b, nil
}

// value returns the value of a key in a file such as os-release, "" where there is none.
func value(text, key string) (found string) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			found = strings.Trim(v, `"'`)
		}
	}
	return found
}

// Family returns the family of boards, "gatehouse-arm64".
func (b *Board) Family() string { return b.family }

// Version returns the version of the image that runs.
func (b *Board) Version() string { return b.version }

// Running returns the slot that runs.
func (b *Board) Running() Name { return b.running }

// Boot returns the folder of the boot partition.
func (b *Board) Boot() string { return b.path(bootFolder) }

// siteFileFolder is there while a site file is applied. gatehouse-boot-partition.service has it, and
// makes the boot partition read-only in the end.
const siteFileFolder = "/run/gatehouse-boot-partition"

// path returns where a path of the board is.
func (b *Board) path(path string) string { return filepath.Join(b.root, path) }

// read returns a small file of the board.
func (b *Board) read(path string) (string, error) {
	content, err := readBounded(b.path(path), maxFile)
	return string(content), err
}

// readBounded returns a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // of this package, below the board's root
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("reading %s: it has more than %d bytes", path, limit)
	}
	return content, nil
}

// versionLine is the line of an entry that states the version.
var versionLine = regexp.MustCompile(`(?m)^version[ \t]+(\S+)[ \t]*$`)

// Installed returns the version in a slot, "" when it has none that could start.
func (b *Board) Installed(n Name) (version string, err error) {
	entry, err := readBounded(b.entryPath(n, ""), maxFile)
	for _, f := range []File{Kernel, Initrd} {
		if err == nil {
			_, err = os.Stat(b.kernelPath(n, f))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if found := versionLine.FindSubmatch(entry); found != nil {
		version = string(found[1])
	}
	return version, err
}

// Root returns the partition of a slot's root, on the disk that runs, and its size in
// bytes.
func (b *Board) Root(n Name) (path string, size int64, err error) {
	mounted, err := b.mountedAt("/")
	if err != nil {
		return "", 0, err
	}
	parts, err := b.partitions(mounted)
	if err != nil {
		return "", 0, err
	}
	if running := parts["root-"+string(b.running)]; running.number != mounted {
		return "", 0, fmt.Errorf("the system runs from device %s, and slot %s is %q", mounted, b.running, running.number)
	}
	found, ok := parts["root-"+string(n)]
	if !ok {
		return "", 0, fmt.Errorf("the disk has no partition root-%s", n)
	}
	return b.path("/dev/" + found.device), found.size, nil
}

// partition is a partition of the disk that runs.
type partition struct {
	number string // of the device, "179:2"
	device string // its name in /dev
	size   int64  // in bytes
}

// partitions returns the partitions of the disk that has the partition with that device
// number, by their names.
func (b *Board) partitions(number string) (map[string]partition, error) {
	one, err := filepath.EvalSymlinks(b.path("/sys/dev/block/" + number))
	if err != nil {
		return nil, fmt.Errorf("finding the disk of device %s: %w", number, err)
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(one), "*", "uevent"))
	if err != nil {
		return nil, err
	}
	found := map[string]partition{}
	for _, file := range files {
		event, err := readBounded(file, maxFile)
		if err != nil {
			return nil, err
		}
		text := string(event)
		name := value(text, "PARTNAME")
		if name == "" {
			continue
		}
		if _, double := found[name]; double {
			return nil, fmt.Errorf("the disk has two partitions named %q", name)
		}
		sectors, err := readBounded(filepath.Join(filepath.Dir(file), "size"), maxFile)
		if err != nil {
			return nil, err
		}
		count, err := strconv.ParseInt(strings.TrimSpace(string(sectors)), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the size of partition %q: %w", name, err)
		}
		found[name] = partition{value(text, "MAJOR") + ":" + value(text, "MINOR"), value(text, "DEVNAME"), count * 512} // in sectors of 512 always
	}
	return found, nil
}

// mountedAt returns the device number of what is mounted at a folder.
func (b *Board) mountedAt(folder string) (number string, err error) {
	table, err := b.read("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(table) { // number, parent, device, root, folder: proc_pid_mountinfo(5)
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == folder {
			number = fields[2]
		}
	}
	if number == "" {
		return "", fmt.Errorf("nothing is mounted at %s", folder)
	}
	return number, nil
}

// Change calls change with the boot partition mounted writable, and makes what it wrote
// durable and the partition read-only again, whatever change returns; it stays writable while
// a site file is applied. Not to be nested.
// It refuses a boot partition that is not on the disk that runs.
func (b *Board) Change(change func() error) (err error) {
	if err := b.checkBoot(); err != nil {
		return err
	}
	if err := b.remount(b.Boot(), false); err != nil {
		return fmt.Errorf("opening the boot partition for writing: %w", err)
	}
	defer func() {
		err = errors.Join(err, syncAll(b.Boot()), b.Protect())
	}()
	return change()
}

// Protect makes the boot partition read-only, as Change leaves it: a process that is killed
// within Change does not.
func (b *Board) Protect() error {
	if _, err := os.Lstat(b.path(siteFileFolder)); err == nil {
		return nil
	}
	if err := b.remount(b.Boot(), true); err != nil {
		return fmt.Errorf("making the boot partition read-only: %w", err)
	}
	return nil
}

// checkBoot refuses a boot partition of another disk, such as a card with the same image
// in a second slot.
func (b *Board) checkBoot() error {
	root, err := b.mountedAt("/")
	if err != nil {
		return err
	}
	boot, err := b.mountedAt(bootFolder)
	if err != nil {
		return err
	}
	parts, err := b.partitions(root)
	if err != nil {
		return err
	}
	if parts["boot"].number != boot {
		return fault.New(fault.Conflict, "The boot partition in "+bootFolder+" is not on the disk that the system runs from: "+
			"remove the other card or disk and restart")
	}
	return nil
}

// syncAll makes everything durable that was written to the file system of a folder.
func syncAll(folder string) error {
	f, err := os.Open(folder) //nolint:gosec // the boot partition
	if err != nil {
		return err
	}
	if err = unix.Syncfs(int(f.Fd())); err != nil {
		err = fmt.Errorf("synchronising %s: %w", folder, err)
	}
	return errors.Join(err, f.Close())
}

// remount mounts a file system anew, writable or not, with the flags that it has.
func remount(folder string, readOnly bool) error {
	const kept = unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC | unix.ST_NOATIME | unix.ST_NODIRATIME // of the same values as those of mount(2)
	var now unix.Statfs_t
	if err := unix.Statfs(folder, &now); err != nil {
		return err
	}
	flags := uintptr(now.Flags)&kept | unix.MS_REMOUNT
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	return unix.Mount("", folder, "", flags, "")
}
