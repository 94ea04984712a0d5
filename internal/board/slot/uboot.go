package slot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"

	"gatehouse/internal/board/durable"
)

// The form of U-Boot's file of variables (include/efi_variable.h, unchanged since
// v2020.10): a header of 64 reserved bits, the magic number, the length of the file and
// the CRC-32 of what follows the header; then variables, each with its length, its
// attributes, its time, its GUID, its name in UTF-16 with NUL, and its data, padded to a
// multiple of 8 bytes. The numbers are little-endian.
const (
	ubootMagic  = 0x0161566966456255
	ubootHeader = 24      // bytes
	ubootEntry  = 32      // bytes of a variable before its name
	maxUboot    = 1 << 17 // bytes of the file: U-Boot reads no more
)

// ubootVariables is the path of the file in which U-Boot keeps variables, on the boot
// partition. It reads it at every start and writes it itself whenever one changes.
type ubootVariables string

// ubootVariable is a variable in the file.
type ubootVariable struct {
	name string // "" where it is not one of the boot loader
	data []byte
	raw  []byte // all of it, with padding
}

func (v ubootVariables) get(name string) ([]byte, error) {
	all, err := v.load()
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.name == name {
			return one.data, nil
		}
	}
	return nil, nil
}

// set writes the file in place, as U-Boot itself does: with that, nothing but its data
// and its size change. A power cut leaves the old content, the new one, or one whose length
// or sum is wrong. U-Boot takes the last as a file without variables and starts the
// default; so does load. A new file beside it and a rename would be no better: on FAT that is several writes.
func (v ubootVariables) set(name string, value []byte) error {
	all, err := v.load()
	if err != nil {
		return err
	}
	content := formatUboot(all, name, value)
	if len(content) > maxUboot {
		return fmt.Errorf("%s has no room for %s", string(v), name)
	}
	info, err := os.Lstat(string(v))
	if errors.Is(err, fs.ErrNotExist) {
		return durable.Write(string(v), content, 0o600)
	}
	if err == nil && info.Size() != int64(len(content)) {
		err = os.Truncate(string(v), int64(len(content)))
	}
	if err != nil {
		return err
	}
	return durable.Overwrite(string(v), 0, content)
}

// load returns the variables. There are none in a file that is damaged, and where there is no file.
func (v ubootVariables) load() ([]ubootVariable, error) {
	info, err := os.Stat(string(v))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() > maxUboot {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	content, err := readBounded(string(v), maxUboot)
	if err != nil {
		return nil, err
	}
	all, _ := parseUboot(content)
	return all, nil
}

// parseUboot returns the variables of a file; false where it is damaged.
func parseUboot(file []byte) (all []ubootVariable, whole bool) {
	le := binary.LittleEndian
	if len(file) < ubootHeader || le.Uint64(file) != 0 || le.Uint64(file[8:]) != ubootMagic ||
		int64(le.Uint32(file[16:])) != int64(len(file)) || le.Uint32(file[20:]) != crc32.ChecksumIEEE(file[ubootHeader:]) {
		return nil, false
	}
	for rest := file[ubootHeader:]; len(rest) > 0; {
		if len(rest) < ubootEntry {
			return nil, false
		}
		name, length := rest[ubootEntry:], int64(le.Uint32(rest))
		end := 0 // of the name
		for ; end+2 <= len(name) && le.Uint16(name[end:]) != 0; end += 2 {
		}
		start := ubootEntry + end + 2 // of the data
		if length > int64(len(rest)-start) {
			return nil, false
		}
		one := ubootVariable{data: rest[start : start+int(length)]}
		if bytes.Equal(rest[16:ubootEntry], loaderVendor()) {
			one.name = decode(name[:end])
		}
		next := min((start+int(length)+7)&^7, len(rest))
		one.raw, rest = rest[:next], rest[next:]
		all = append(all, one)
	}
	return all, true
}

// formatUboot returns a file of these variables, but for the one of that name of the boot
// loader, which gets value; nil removes it.
func formatUboot(all []ubootVariable, name string, value []byte) []byte {
	le := binary.LittleEndian
	var body []byte
	for _, one := range all {
		if one.name != name {
			body = pad(append(body, one.raw...))
		}
	}
	if value != nil {
		body = le.AppendUint32(body, uint32(len(value)))
		body = le.AppendUint32(body, attributes)
		body = le.AppendUint64(body, 0)
		body = append(body, loaderVendor()...)
		body = append(body, encode(name)...)
		body = pad(append(body, value...))
	}
	header := make([]byte, ubootHeader)
	le.PutUint64(header[8:], ubootMagic)
	le.PutUint32(header[16:], uint32(ubootHeader+len(body)))
	le.PutUint32(header[20:], crc32.ChecksumIEEE(body))
	return slices.Concat(header, body)
}

// pad pads to a multiple of 8 bytes.
func pad(body []byte) []byte { return append(body, make([]byte, -len(body)&7)...) }

// loaderVendor returns the GUID of the boot loader's variables as firmware writes it: the
// first three numbers are little-endian.
func loaderVendor() []byte {
	return []byte{0x82, 0xb0, 0x67, 0x4a, 0x4c, 0x0a, 0xcf, 0x41, 0xb6, 0xc7, 0x44, 0x0b, 0x29, 0xbb, 0x8c, 0x4f}
}
