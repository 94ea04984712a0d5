package firstboot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// notHere replaces the generated passwords on a card that every user can read.
const notHere = `THE PASSWORDS THAT WERE GENERATED are not on this card, which every user of
this board can read. As root, read them, write them down and delete the file:
  %s
`

// writeResult writes the parts of a result beside the site file, or beside the
// configuration where that cannot be. The generated passwords, issued, are not written to
// a card that every user can read.
func (b *boot) writeResult(issued string, parts ...string) error {
	card, aside := b.beside(resultName), filepath.Join(b.folder, resultName)
	text := func(last string) string {
		return strings.Join(slices.DeleteFunc(append(slices.Clone(parts), last), func(part string) bool { return part == "" }), "\n")
	}
	public := issued != "" && b.public(filepath.Dir(b.path))
	if public {
		if err := b.writeResultTo(aside, text(issued)); err != nil {
			return err
		}
		issued = fmt.Sprintf(notHere, aside)
	}
	err := b.writeResultTo(card, text(issued))
	if err == nil || public {
		return nil // else all of it is in the other file
	}
	if aside == card || b.writeResultTo(aside, text(issued)) != nil {
		return err
	}
	return nil
}

// writeResultTo writes a result. Generated passwords of an earlier one, which are stored
// nowhere else and may not have been read yet, stay at its end.
func (b *boot) writeResultTo(path, text string) error {
	old, _ := os.ReadFile(path) //nolint:gosec // a fixed name beside the site file or the configuration
	if _, unread, has := strings.Cut(string(old), issuedTitle); has && !strings.Contains(text, unread) {
		text += "\n" + issuedTitle + unread
	}
	if err := b.write(path, []byte(text), 0o600, ownGroup); err != nil {
		return err
	}
	b.out.Result = path
	return nil
}
