package update

import (
	"fmt"
	"os"
	"regexp"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/board/machine"
	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/updatefile"
)

// judge refuses an update that is genuine and not for this board.
func (u *Updater) judge(m updatefile.Manifest) error {
	if m.Family != u.Board.Family() {
		return fault.New(fault.Invalid, fmt.Sprintf("The update is for boards of the family %s and this one is of %s: take the update for %s",
			m.Family, u.Board.Family(), u.Board.Family()))
	}
	switch order := compareVersions(m.Version, u.Board.Version()); {
	case order == 0:
		return fault.New(fault.Invalid, fmt.Sprintf("Version %s runs already: there is nothing to update", m.Version))
	case order < 0:
		return fault.New(fault.Invalid, fmt.Sprintf(
			"The update has version %s, older than %s, which runs: take a newer one, or return to the other slot with \"gatehouse update rollback\"", m.Version, u.Board.Version()))
	}
	return u.judgeRoom(m)
}

// judgeEntries refuses entries that do not start what they are written for.
func (u *Updater) judgeEntries(f *updatefile.File) error {
	letter := string(u.other())
	version := regexp.MustCompile(`(?m)^version[ \t]+` + regexp.QuoteMeta(f.Manifest.Version) + `[ \t]*$`)
	starts := regexp.MustCompile(`(?m)^options .*\bgatehouse\.slot=` + letter + `\b`)
	for _, name := range []updatefile.PartName{updatefile.Entry, updatefile.ShellEntry} {
		text, err := f.EntryFor(name, letter)
		if err != nil {
			return err
		}
		if len(text) > slot.EntrySize || !version.Match(text) || !starts.Match(text) {
			return fault.New(fault.Invalid, fmt.Sprintf("The %s of the update does not start version %s from slot %s: make the update again, with scripts/release",
				name, f.Manifest.Version, letter))
		}
	}
	return nil
}

// bootSpare is what the file system of the boot partition needs besides its files, in bytes.
const bootSpare = 8 << 20

// judgeRoom refuses an update that does not fit into the slot.
func (u *Updater) judgeRoom(m updatefile.Manifest) error {
	_, size, err := u.Board.Root(u.other())
	if err != nil {
		return fault.Wrap(fault.Unavailable, "The partition of slot "+string(u.other())+" is not found: write the image to the card anew, and restore a backup on it", err)
	}
	if need := m.Unpacked().Size; need > size {
		return fault.New(fault.Invalid, fmt.Sprintf("There is no room for the update: it needs %s and slot %s has %s; write the new image to the card, and restore a backup on it",
			machine.Size(need), u.other(), machine.Size(size)))
	}
	room, err := durable.RoomAt(u.Board.Boot())
	if err != nil {
		return fault.Wrap(fault.Unavailable, "The boot partition does not say how much room it has: is it mounted?", err)
	}
	free := room.Free
	for _, path := range u.Board.Replaced(u.other()) { // they are removed first
		if info, err := os.Stat(path); err == nil {
			free += info.Size()
		}
	}
	if need := m.Part(updatefile.Kernel).Size + m.Part(updatefile.Initrd).Size + bootSpare; need > free {
		return fault.New(fault.Invalid, fmt.Sprintf("There is no room on the boot partition: the update needs %s and %s are free; remove from it what you have put there",
			machine.Size(need), machine.Size(free)))
	}
	return nil
}
