package slot

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// EntrySize is the size of each entry of the boot loader on the boot partition, in
// bytes: one sector. A shorter one is padded with newlines.
const EntrySize = 512

// entryName returns the name of a slot's entry, as the boot loader knows it.
func entryName(n Name) string { return "gatehouse-" + string(n) + ".conf" }

// entryPath returns where an entry of a slot is; suffix is "" or "-shell".
func (b *Board) entryPath(n Name, suffix string) string {
	return filepath.Join(b.Boot(), "loader", "entries", "gatehouse-"+string(n)+suffix+".conf")
}

// WriteEntries replaces the two entries of a slot, each at most [EntrySize] bytes and
// each in place, so that a power cut leaves the old or the new one. The error is Invalid
// for a longer one, and Conflict as with Clear.
func (b *Board) WriteEntries(n Name, entry, shell []byte) error {
	if err := b.checkIdle(n); err != nil {
		return err
	}
	for _, e := range [][]byte{entry, shell} {
		if len(e) > EntrySize {
			return fault.New(fault.Invalid, fmt.Sprintf("An entry of the update has %d bytes, at most %d are possible", len(e), EntrySize))
		}
	}
	if err := writeEntry(b.entryPath(n, "-shell"), shell); err != nil {
		return err
	}
	return writeEntry(b.entryPath(n, ""), entry)
}

// writeEntry writes an entry in place. Where there is none of that size, which somebody
// must have removed, the slot cannot start, and it is replaced as any other file.
func writeEntry(path string, content []byte) error {
	content = append(bytes.Clone(content), bytes.Repeat([]byte("\n"), EntrySize-len(content))...)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Size() != EntrySize {
		return durable.Write(path, content, 0o600)
	}
	return durable.Overwrite(path, 0, content)
}

// defaultLine is the line of loader.conf that names the default. An installer who wants
// a shell at every start has put that entry there, perhaps with an editor that ends lines
// with CR LF.
var defaultLine = regexp.MustCompile(`(?m)^default gatehouse-([ab])(?:-shell)?\.conf[ \t\r]*$`)

// anyDefault is a line that the boot loader would take for one.
var anyDefault = regexp.MustCompile(`(?mi)(?:^|\r)\s*default\b`)

// loaderPath returns where the settings of the boot loader are.
func (b *Board) loaderPath() string { return filepath.Join(b.Boot(), "loader", "loader.conf") }

// Default returns the slot that a start takes when there is no one shot: of loader.conf,
// unless somebody has chosen another one with the key "d" in the menu.
func (b *Board) Default() (Name, error) {
	if chosen, err := b.variable(chosenDefault); err != nil || chosen != "" {
		return chosen, err
	}
	n, _, err := b.loaderDefault()
	return n, err
}

// confirmDefault writes to loader.conf what somebody has chosen in the menu, if that runs.
// Else a start would try the other slot with no way back, where the variable is lost.
func (b *Board) confirmDefault() error {
	chosen, err := b.variable(chosenDefault)
	if err != nil || chosen != b.running {
		return err
	}
	return b.SetDefault(chosen)
}

// loaderDefault returns the default of loader.conf, and where its letter is. What is not
// of the image's form is refused.
func (b *Board) loaderDefault() (n Name, at int64, err error) {
	text, err := readBounded(b.loaderPath(), maxFile)
	if err != nil {
		return "", 0, err
	}
	found := defaultLine.FindAllSubmatchIndex(text, -1)
	if len(found) != 1 || len(anyDefault.FindAll(text, -1)) != 1 {
		return "", 0, fault.New(fault.Conflict, "loader/loader.conf on the boot partition has not exactly one line "+
			`"default gatehouse-a.conf" or "default gatehouse-b.conf": restore that line`)
	}
	letter := found[0][2]
	return Name(text[letter]), int64(letter), nil
}

// emptyError is the error for a slot that cannot start.
func emptyError(n Name) error {
	return fault.New(fault.Conflict, "Slot "+string(n)+" is empty")
}

// SetDefault makes a slot the default, by one byte of loader.conf. The error is Conflict
// for a loader.conf without exactly one such line, and for an empty slot.
func (b *Board) SetDefault(n Name) error {
	version, err := b.Installed(n)
	if err != nil {
		return err
	}
	if version == "" {
		return emptyError(n)
	}
	now, at, err := b.loaderDefault()
	if err != nil {
		return err
	}
	if now != n {
		err = durable.Overwrite(b.loaderPath(), at, []byte(n))
	}
	if err != nil {
		return err
	}
	return b.clearVariable(chosenDefault) // it would count for more
}
