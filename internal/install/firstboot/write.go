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
		return nil //nolint:nilerr // all of it is in the other file
	}
	if aside == card || b.writeResultTo(aside, text(issued)) != nil {
		return err
	}
	return nil
}

func (b *boot) writeResultTo(path, text string) error {
	err := b.keepUnread(path, text)
	if err == nil {
		err = b.replace(path, []byte(text), 0o600, ownGroup)
	}
	if err != nil {
		return refuse(path, "the result cannot be written: %s", cause(err))
	}
	b.out.Result = path
	return nil
}

// keepUnread renames an earlier result with passwords that the new one does not have:
// they are stored nowhere else, and may not have been read yet.
func (b *boot) keepUnread(path, text string) error {
	old, err := os.ReadFile(path) //nolint:gosec // a fixed name beside the site file or the configuration
	if err != nil {
		return nil //nolint:nilerr // there is none, or none that can be read
	}
	_, unread, has := strings.Cut(string(old), issuedTitle)
	if !has || strings.Contains(text, unread) {
		return nil
	}
	for n := 1; ; n++ {
		kept := fmt.Sprintf("%s.%d.txt", strings.TrimSuffix(path, ".txt"), n)
		if _, err := os.Lstat(kept); err == nil {
			continue
		}
		if err := b.rename(path, kept); err != nil {
			return err
		}
		b.warn("An earlier result with generated passwords is called %s now: delete it once you have them.", kept)
		return nil
	}
}
