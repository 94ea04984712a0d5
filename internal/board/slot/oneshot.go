package slot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
)

// The variables of the boot loader (systemd-boot, BOOT_LOADER_INTERFACE), all of its
// vendor's GUID.
const (
	loaderGUID    = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
	oneShot       = "LoaderEntryOneShot"   // the entry of the next start alone; the boot loader removes it
	chosenDefault = "LoaderEntryDefault"   // an entry chosen in the menu; counts for more than loader.conf
	firmware      = "LoaderFirmwareInfo"   // what has started the boot loader: "Das U-Boot 8228.256"
	uboot         = "Das U-Boot"           // stores variables in a file, and lets nobody write them once the system runs
	attributes    = uint32(1 | 2 | 4)      // non-volatile, for the boot loader and for the system (UEFI 2.10, 8.2.1)
	maxVariable   = 4096                   // bytes
	efiFolder     = "/sys/firmware/efi"    // exists where UEFI or U-Boot has started the system
	efivars       = efiFolder + "/efivars" // efivarfs
)

// entryID is the name of an entry of ours in a variable.
var entryID = regexp.MustCompile(`^gatehouse-([ab])(?:-shell)?\.conf$`)

// OneShot returns the slot that the next start tries once, "" if none.
func (b *Board) OneShot() (Name, error) { return b.variable(oneShot) }

// SetOneShot makes the next start try a slot, once. The error is Conflict for an empty
// slot.
func (b *Board) SetOneShot(n Name) error {
	version, err := b.Installed(n)
	if err != nil {
		return err
	}
	if version == "" {
		return emptyError(n)
	}
	s, err := b.store()
	if err != nil {
		return err
	}
	if err = s.set(oneShot, encode(entryName(n))); err != nil {
		return fmt.Errorf("setting the slot of the next start: %w", err)
	}
	got, err := b.OneShot()
	if err == nil && got != n {
		err = fault.New(fault.Unavailable, "The firmware has not kept which slot is to start next")
	}
	return err
}

// ClearOneShot removes the one shot, if there is one.
func (b *Board) ClearOneShot() error { return b.clearVariable(oneShot) }

// TryOnce is SetOneShot, with the boot partition open for writing as Change has it. After an
// error it has removed what it set, where the disk still takes that.
func (b *Board) TryOnce(n Name) error {
	err := b.Change(func() error {
		if err := b.confirmDefault(); err != nil {
			return err
		}
		return b.SetOneShot(n)
	})
	if err != nil { // it may be set all the same
		err = errors.Join(err, b.DropOneShot())
	}
	return err
}

// DropOneShot is ClearOneShot as TryOnce is SetOneShot; it writes nothing where there is none.
func (b *Board) DropOneShot() error {
	shot, err := b.OneShot()
	if err != nil || shot == "" {
		return err
	}
	return b.Change(b.ClearOneShot)
}

// variable returns the slot that a variable names, "" where there is none or it names
// something else.
func (b *Board) variable(name string) (Name, error) {
	s, err := b.store()
	if err != nil {
		return "", err
	}
	data, err := s.get(name)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	if found := entryID.FindStringSubmatch(decode(data)); found != nil {
		return Name(found[1]), nil
	}
	return "", nil
}

// clearVariable removes a variable, if there is one.
func (b *Board) clearVariable(name string) error {
	s, err := b.store()
	if err != nil {
		return err
	}
	data, err := s.get(name)
	if err == nil && data != nil {
		err = s.set(name, nil)
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	return nil
}

// variables is where the firmware keeps the variables of the boot loader.
type variables interface {
	// get returns the value of a variable, nil where there is none.
	get(name string) ([]byte, error)
	// set replaces a variable; a nil value removes it.
	set(name string, value []byte) error
}

// store returns where this board's firmware keeps variables: in the file of U-Boot where
// that has started the board, else in its own memory. A U-Boot whose variables the system
// cannot even read shows none at all.
func (b *Board) store() (variables, error) {
	own := efiVariables(b.path(efivars))
	info, err := own.get(firmware)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", firmware, err)
	}
	if info != nil && !strings.HasPrefix(decode(info), uboot) {
		return own, nil
	}
	if shown, _ := filepath.Glob(b.path(efivars + "/*")); info == nil && shown != nil {
		return own, nil
	}
	if _, err := os.Stat(b.path(efiFolder)); err != nil {
		return nil, fault.Wrap(fault.Unavailable, "This system was not started by UEFI or U-Boot, so that the other slot cannot be tried", err)
	}
	return ubootVariables(filepath.Join(b.Boot(), "ubootefi.var")), nil
}

// efiVariables is a folder with an efivarfs: one file a variable, its attributes before
// its value (Documentation/filesystems/efivarfs.rst of Linux).
type efiVariables string

func (v efiVariables) path(name string) string {
	return filepath.Join(string(v), name+"-"+loaderGUID)
}

func (v efiVariables) get(name string) ([]byte, error) {
	content, err := readBounded(v.path(name), maxVariable)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return content[min(4, len(content)):], nil
}

func (v efiVariables) set(name string, value []byte) error {
	path := v.path(name)
	if err := makeMutable(path); err != nil {
		return err
	}
	if value == nil {
		return os.Remove(path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644) //nolint:gosec // as systemd makes it; no secret
	if err != nil {
		return err
	}
	_, err = f.Write(append(binary.LittleEndian.AppendUint32(nil, attributes), value...)) // in one write, as efivarfs wants it
	return errors.Join(err, f.Close())
}

// makeMutable removes the flag by which efivarfs protects variables that it does not
// know. A file system without flags, and a file that does not exist, need none.
func makeMutable(path string) error {
	f, err := os.Open(path) //nolint:gosec // a variable of ours
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	const immutable = 0x10 // FS_IMMUTABLE_FL of linux/fs.h
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOTSUP) {
		return f.Close()
	}
	if err == nil && flags&immutable != 0 {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags&^immutable)
	}
	return errors.Join(err, f.Close())
}

// encode returns a text as the boot loader wants it in a variable: UTF-16 with NUL.
func encode(text string) []byte {
	var value []byte
	for _, unit := range utf16.Encode([]rune(text + "\x00")) {
		value = binary.LittleEndian.AppendUint16(value, unit)
	}
	return value
}

// decode returns the text of a variable, up to NUL.
func decode(value []byte) string {
	units := make([]uint16, len(value)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(value[2*i:])
	}
	text, _, _ := strings.Cut(string(utf16.Decode(units)), "\x00")
	return text
}
