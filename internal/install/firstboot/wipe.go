package firstboot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/setup/tomlfile"
)

// removes reports whether path is a password file that was put on the card for this
// purpose alone: it lies beside the site file and is named for it. Any other file may be
// one that the board needs to start.
func (b *boot) removes(path string) bool {
	extension := filepath.Ext(path)
	return filepath.Dir(path) == filepath.Dir(b.path) && (extension == ".password" || extension == ".secret")
}

// wipe leaves a copy of the site file without its secrets, and overwrites and removes the
// file and its password files. Before that the site file is renamed, so that under its own
// name it is always whole, and is never applied again when the power is cut on the way.
// Done twice, it does no harm.
func (b *boot) wipe() error {
	failed := b.wipeSecrets()
	b.noteUnwiped(failed)
	if failed != nil {
		return failed
	}
	if err := b.remove(b.statePath()); err != nil {
		return err
	}
	b.state = state{}
	return b.remove(b.beside(wipingName))
}

// wipeSecrets is wipe without what is left of it in the end. The site file, which names the
// password files, is overwritten last.
func (b *boot) wipeSecrets() error {
	wiping := b.beside(wipingName)
	if b.path != wiping {
		if err := b.retire(wiping); err != nil {
			return unwiped(b.path, err)
		}
	}
	data, err := readSite(wiping)
	if err != nil {
		return err
	}
	if d, err := tomlfile.Decode(wiping, data); err == nil { // else the power was cut while it was overwritten
		named, _ := sitefile.Read(d, ours())
		for _, path := range named.PasswordFiles {
			if err := b.wipeFile(path); err != nil {
				return unwiped(path, err)
			}
		}
	}
	if err := b.blank(wiping); err != nil {
		return unwiped(wiping, err)
	}
	return nil
}

// retire writes the copy without secrets and renames the site file.
func (b *boot) retire(wiping string) error {
	data, err := readSite(b.path)
	if err != nil {
		return err
	}
	d, err := tomlfile.Decode(b.path, data)
	if err != nil {
		return err //nolint:wrapcheck // unwiped words it
	}
	redacted, err := d.Redacted()
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	if err := b.replace(b.beside(doneName), redacted, 0o600, ownGroup); err != nil {
		return err
	}
	return b.rename(b.path, wiping)
}

// wipeFile overwrites and removes a password file that was meant for it; one that does not
// exist is done.
func (b *boot) wipeFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || !b.removes(path) {
		return nil
	}
	if err == nil && info.Mode().IsRegular() {
		err = b.blank(path)
	}
	if err != nil {
		return err
	}
	return b.remove(path)
}

// unwiped says that all is done but that secrets are left.
func unwiped(path string, err error) error {
	return refuse(path, "everything was set up, but the passwords in this file could not be wiped (%s): make the card writable "+
		"(mount -o remount,rw %s) and run \"gatehouse first-boot\", or delete the file by hand", cause(err), filepath.Dir(path))
}

// leftTitle begins the end of a result whose site file was not wiped.
const leftTitle = "\nPASSWORDS ARE LEFT ON THIS CARD\n"

// noteUnwiped adds to the result of the first boot what is left to wipe, or removes that
// note. A result that cannot be written stays as it is.
func (b *boot) noteUnwiped(left error) {
	for _, path := range []string{b.beside(resultName), filepath.Join(b.folder, resultName)} {
		old, err := os.ReadFile(path) //nolint:gosec // a fixed name beside the site file or the configuration
		if err != nil || !strings.HasPrefix(string(old), successHead) {
			continue
		}
		text, _, _ := strings.Cut(string(old), leftTitle)
		if left != nil {
			text += leftTitle + "  - " + left.Error() + "\n"
		}
		if text != string(old) {
			_ = b.replace(path, []byte(text), 0o600, ownGroup)
		}
	}
}
