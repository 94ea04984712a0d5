// Package fat reads FAT32 file systems, also damaged ones, as the firmware of a board
// reads its boot partition: it follows the first table and no more.
package fat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf16"
)

// FS is a file system. It may be used as long as what it reads from does not change.
type FS struct {
	from     io.ReaderAt
	cluster  int64 // size in bytes
	table    []byte
	data     int64 // where cluster 2 is
	rootDir  uint32
	clusters uint32 // one more than the last
}

// Extent is a part of a file, in bytes of the file system.
type Extent struct{ Offset, Size int64 }

// Open reads what is needed of a file system to read its files.
func Open(from io.ReaderAt) (*FS, error) {
	boot := make([]byte, 512)
	if _, err := from.ReadAt(boot, 0); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	sector := int64(le.Uint16(boot[11:]))
	reserved, tables, tableSize := int64(le.Uint16(boot[14:])), int64(boot[16]), int64(le.Uint32(boot[36:]))
	f := &FS{from: from, cluster: sector * int64(boot[13]), rootDir: le.Uint32(boot[44:])}
	if sector != 512 || f.cluster == 0 || tables == 0 || tableSize == 0 || le.Uint16(boot[510:]) != 0xaa55 {
		return nil, errors.New("it is no FAT32 file system")
	}
	f.table = make([]byte, tableSize*sector)
	f.data = (reserved + tables*tableSize) * sector
	f.clusters = uint32((int64(le.Uint32(boot[32:]))*sector-f.data)/f.cluster) + 2
	_, err := from.ReadAt(f.table, reserved*sector)
	return f, err
}

// chain returns the parts of the file system that begin at a cluster.
func (f *FS) chain(first uint32) (all []Extent, err error) {
	for n := first; n < 0x0ffffff8; {
		if n < 2 || n >= f.clusters || len(all) > int(f.clusters) {
			return nil, fmt.Errorf("a chain of clusters leads to %d", n)
		}
		all = append(all, Extent{f.data + int64(n-2)*f.cluster, f.cluster})
		n = binary.LittleEndian.Uint32(f.table[4*n:]) & 0x0fffffff
	}
	return all, nil
}

func (f *FS) read(parts []Extent) ([]byte, error) {
	var all []byte
	for _, e := range parts {
		p := make([]byte, e.Size)
		if _, err := f.from.ReadAt(p, e.Offset); err != nil {
			return nil, err
		}
		all = append(all, p...)
	}
	return all, nil
}

// entry is a file in a folder.
type entry struct {
	name   string
	folder bool
	first  uint32
	size   int64
}

func (f *FS) folder(first uint32) (all []entry, err error) {
	parts, err := f.chain(first)
	if err != nil {
		return nil, err
	}
	raw, err := f.read(parts)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	long := ""
	for ; len(raw) >= 32 && raw[0] != 0; raw = raw[32:] {
		switch attributes := raw[11]; {
		case raw[0] == 0xe5:
			long = ""
		case attributes&0x3f == 0x0f:
			long = longPart(raw) + long
		case attributes&0x08 != 0: // the name of the file system
			long = ""
		default:
			name := long
			if long == "" {
				name = shortName(raw)
			}
			first := uint32(le.Uint16(raw[20:]))<<16 | uint32(le.Uint16(raw[26:]))
			all = append(all, entry{name, attributes&0x10 != 0, first, int64(le.Uint32(raw[28:]))})
			long = ""
		}
	}
	return all, nil
}

// longPart returns the 13 characters of a long name in an entry.
func longPart(raw []byte) string {
	var units []uint16
	for _, at := range []int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} {
		unit := binary.LittleEndian.Uint16(raw[at:])
		if unit == 0 || unit == 0xffff {
			break
		}
		units = append(units, unit)
	}
	return string(utf16.Decode(units))
}

func shortName(raw []byte) string {
	name, extension := strings.TrimRight(string(raw[:8]), " "), strings.TrimRight(string(raw[8:11]), " ")
	if extension != "" {
		name += "." + extension
	}
	return name
}

// find returns a file. The error is fs.ErrNotExist if there is none.
func (f *FS) find(path string) (entry, error) {
	at := entry{folder: true, first: f.rootDir}
	for name := range strings.SplitSeq(path, "/") {
		if !at.folder {
			return at, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
		}
		all, err := f.folder(at.first)
		if err != nil {
			return at, fmt.Errorf("%s: %w", path, err)
		}
		found := false
		for _, e := range all {
			if strings.EqualFold(e.name, name) {
				at, found = e, true
				break
			}
		}
		if !found {
			return at, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
		}
	}
	return at, nil
}

// Extents returns where a file is.
func (f *FS) Extents(path string) ([]Extent, error) {
	e, err := f.find(path)
	if err != nil {
		return nil, err
	}
	if e.size == 0 {
		return nil, nil
	}
	parts, err := f.chain(e.first)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out []Extent
	left := e.size
	for _, p := range parts {
		p.Size = min(p.Size, left)
		left -= p.Size
		if n := len(out); n > 0 && out[n-1].Offset+out[n-1].Size == p.Offset {
			out[n-1].Size += p.Size
			continue
		}
		if p.Size > 0 {
			out = append(out, p)
		}
	}
	if left > 0 {
		return nil, fmt.Errorf("%s: its clusters end %d bytes before it does", path, left)
	}
	return out, nil
}

// ReadFile returns the content of a file. The error is fs.ErrNotExist if there is none.
func (f *FS) ReadFile(path string) ([]byte, error) {
	parts, err := f.Extents(path)
	if err != nil {
		return nil, err
	}
	return f.read(parts)
}

// Files returns the paths of all files below a folder, "" for all.
func (f *FS) Files(path string) (all []string, err error) {
	at := entry{folder: true, first: f.rootDir}
	if path != "" {
		if at, err = f.find(path); err != nil {
			return nil, err
		}
		path += "/"
	}
	entries, err := f.folder(at.first)
	for _, e := range entries {
		switch {
		case e.name == "." || e.name == "..":
		case e.folder:
			below, err := f.Files(path + e.name)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
		default:
			all = append(all, path+e.name)
		}
	}
	return all, err
}
