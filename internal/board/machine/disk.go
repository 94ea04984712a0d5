package machine

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Mount is a mounted file system (proc(5), /proc/self/mountinfo).
type Mount struct {
	Point   string   // where it is mounted
	Type    string   // "ext4"
	Source  string   // "/dev/mmcblk0p2"
	Device  string   // its number, "179:2"
	Options []string // of the mount and of the file system
}

// Has reports whether the mount has an option, such as "ro".
func (mt Mount) Has(option string) bool { return slices.Contains(mt.Options, option) }

// Option gives the value of an option such as "upperdir", or "".
func (mt Mount) Option(name string) string {
	for _, o := range mt.Options {
		if value, is := strings.CutPrefix(o, name+"="); is {
			return value
		}
	}
	return ""
}

// MountOf gives the mount that a path without symbolic links is on.
func (m Machine) MountOf(file string) (Mount, error) {
	text, err := m.Read("/proc/self/mountinfo")
	if err != nil {
		return Mount{}, err
	}
	var found Mount
	for line := range strings.Lines(string(text)) {
		mt, ok := parseMount(line)
		// Of two at one point the later hides the earlier.
		if ok && within(file, mt.Point) && len(mt.Point) >= len(found.Point) {
			found = mt
		}
	}
	if found.Point == "" {
		return Mount{}, errors.New("no mount has " + file)
	}
	return found, nil
}

func within(file, folder string) bool {
	return folder == "/" || file == folder || strings.HasPrefix(file, folder+"/")
}

// parseMount reads a line such as
// "36 35 179:2 / /var rw,noatime shared:1 - ext4 /dev/mmcblk0p2 rw,errors=continue".
func parseMount(line string) (Mount, bool) {
	front, back, ok := strings.Cut(line, " - ")
	first, second := strings.Fields(front), strings.Fields(back)
	if !ok || len(first) < 6 || len(second) < 3 {
		return Mount{}, false
	}
	options := slices.Concat(strings.Split(first[5], ","), strings.Split(second[2], ","))
	return Mount{
		Point: unescape(first[4]), Type: second[0], Source: unescape(second[1]), Device: first[2], Options: options,
	}, true
}

// unescape reads the octal escapes of mountinfo (" " is "\040").
func unescape(text string) string {
	before, rest, escaped := strings.Cut(text, `\`)
	if !escaped || len(rest) < 3 {
		return text
	}
	n, err := strconv.ParseUint(rest[:3], 8, 8)
	if err != nil {
		return text
	}
	return before + string(byte(n)) + unescape(rest[3:])
}

// Disk is the block device that a file system is on, the whole one.
type Disk struct {
	Name      string // "mmcblk0"
	Partition string // that the file system is on, "mmcblk0p2" or "dm-0"
	Kind      string // "eMMC", "SD card", "NVMe", "disk" or "" where it cannot be told
	Written   int64  // bytes since the machine was started; -1 where unknown
	IOErrors  int64  // that the device driver counted; 0 where it does not
	Wear      []int  // of an eMMC: used life in tenths, 1 to 11 (JESD84-B51), for each kind of its cells
	PreEnd    int    // of an eMMC: its spare blocks, 1 normal, 2 used to 80 %, 3 to 90 %; 0 unknown
}

// DiskOf gives the disk of a mount. The error says why it cannot be told, as for a
// file system in memory.
func (m Machine) DiskOf(mt Mount) (Disk, error) {
	dir := m.blockDir("/sys/dev/block/" + mt.Device)
	if dir == "" {
		return Disk{}, errors.New("no disk is behind " + mt.Source)
	}
	d := Disk{Partition: path.Base(dir)}
	if below := m.Entries(dir + "/slaves"); len(below) > 0 { // a device mapper's, such as an encrypted one
		dir = m.blockDir(dir + "/slaves/" + below[0])
	}
	if m.Exists(dir + "/partition") {
		dir = path.Dir(dir)
	}
	d.Name = path.Base(dir)
	d.Written = m.written(dir)
	d.IOErrors, _ = strconv.ParseInt(m.text(dir+"/device/ioerr_cnt"), 0, 64)
	d.Kind = m.kindOf(d.Name, dir)
	for life := range strings.FieldsSeq(m.text(dir + "/device/life_time")) {
		if n, err := strconv.ParseInt(life, 0, 16); err == nil && n > 0 {
			d.Wear = append(d.Wear, int(n))
		}
	}
	if n, err := strconv.ParseInt(m.text(dir+"/device/pre_eol_info"), 0, 16); err == nil {
		d.PreEnd = int(n)
	}
	return d, nil
}

// blockDir follows a link of /sys to the folder of a device.
func (m Machine) blockDir(link string) string {
	target, err := fs.ReadLink(m.Files, inTree(link))
	if err != nil {
		return ""
	}
	return path.Join(path.Dir(link), target)
}

func (m Machine) kindOf(name, dir string) string {
	switch {
	case m.text(dir+"/device/type") == "MMC":
		return "eMMC"
	case m.text(dir+"/device/type") == "SD":
		return "SD card"
	case strings.HasPrefix(name, "nvme"):
		return "NVMe"
	case strings.HasPrefix(name, "sd"):
		return "disk"
	default:
		return ""
	}
}

// written reads the sectors written (Documentation/block/stat.rst of the kernel).
func (m Machine) written(dir string) int64 {
	const sector = 512
	fields := strings.Fields(m.text(dir + "/stat"))
	if len(fields) < 7 {
		return -1
	}
	sectors, err := strconv.ParseInt(fields[6], 10, 64)
	if err != nil {
		return -1
	}
	return sectors * sector
}

// FileSystemErrors gives how many errors an ext4 file system has found in itself, by
// the name of its partition, and where the last one was; 0 for others.
func (m Machine) FileSystemErrors(partition string) (count int, last string) {
	dir := "/sys/fs/ext4/" + partition
	count, _ = strconv.Atoi(m.text(dir + "/errors_count"))
	return count, m.text(dir + "/last_error_func")
}

// Entries lists the folder at an absolute path; nil where it cannot be read.
func (m Machine) Entries(dir string) []string {
	list, err := fs.ReadDir(m.Files, inTree(dir))
	if err != nil {
		return nil
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names
}
