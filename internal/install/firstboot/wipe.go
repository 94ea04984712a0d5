package firstboot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

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
// name it is always whole, and is never applied again when the power is cut on the way. As
// it names the password files, it is overwritten last. Done twice, it does no harm.
func (b *boot) wipe() error {
	wiping := b.beside(wipingName)
	data, err := readSite(b.path)
	if err != nil {
		return err
	}
	if d, err := tomlfile.Decode(b.path, data); err == nil { // else the power was cut while it was overwritten
		if err := b.retire(d, wiping); err != nil {
			return unwiped(b.path, err)
		}
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
	if err := b.remove(b.statePath()); err != nil {
		return err
	}
	b.state = state{}
	return b.remove(wiping)
}

// retire writes the copy without secrets and renames the site file, unless an earlier run
// did.
func (b *boot) retire(d *tomlfile.Document, wiping string) error {
	if b.path == wiping {
		return nil
	}
	redacted, err := d.Redacted()
	if err != nil {
		return err //nolint:wrapcheck // unwiped words it
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

// unwiped returns the error for secrets that could not be wiped after all else was done.
func unwiped(path string, err error) error {
	return refuse(path, "everything was set up, but the passwords in this file could not be wiped (%s): make the card writable "+
		"(mount -o remount,rw %s) and run \"gatehouse first-boot\", or delete the file by hand", cause(err), filepath.Dir(path))
}
