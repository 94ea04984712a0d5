package backup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// KeptSuffix comes before the stamp in the name of a file of the configuration that a
// restore has replaced.
const KeptSuffix = ".before-restore-"

// Placement is what a restore does to the configuration. The owner of its folder, on a
// board root, prepares it and carries it out: everything that it writes comes from the
// memory of that process, nothing from the data directory.
type Placement struct {
	Written []string `json:"configuration"` // files that are written, or set aside: a former one is kept with a suffix
	LeftOut []string `json:"leftOut"`       // names in the backup that are no files of a configuration

	changes []change
}

// change is what happens to one file.
type change struct {
	target string
	text   []byte // nil: the file is set aside
	aside  string // where the former one is kept; "": there is none
	mode   os.FileMode
	group  int
}

// Prepare decides what to do with the files of a draft, and changes nothing. Files that
// are already there unchanged are left. Files of conf.d that the backup does not have
// are set aside, because they would be read too. Without a main file in the draft nothing
// changes. named are the files that the restored configuration names; stamp ends the names
// of what is kept, see [Stamp]. If root restores, files that are not public get the group.
// Forbidden and Unavailable where this user cannot read or write the configuration.
func (c Configuration) Prepare(d Draft, named []string, group int, stamp string) (*Placement, error) {
	p := &Placement{Written: []string{}, LeftOut: []string{}}
	if len(d.Settings()) == 0 {
		return p, nil
	}
	wanted := make(map[string]bool)
	for _, f := range d {
		mode, ours := c.modeOf(f.Entry, named)
		if !ours {
			p.LeftOut = append(p.LeftOut, strings.TrimPrefix(f.Name, underConfig))
			continue
		}
		one := change{target: c.target(f.Name), text: append([]byte{}, f.Text...), mode: mode, group: durable.OwnGroup}
		wanted[one.target] = true
		if mode == 0o640 && os.Geteuid() == 0 {
			one.group = group
		}
		if err := p.add(one, stamp); err != nil {
			return nil, err
		}
	}
	present, err := c.paths()
	if err != nil {
		return nil, unreadable(err)
	}
	for _, path := range present {
		if filepath.Dir(path) == filepath.Join(filepath.Dir(c.Main), "conf.d") && !wanted[path] {
			if err := p.add(change{target: path}, stamp); err != nil {
				return nil, err
			}
		}
	}
	if len(p.changes) == 0 {
		return p, nil
	}
	folder := filepath.Dir(c.Main)
	for !isThere(folder) {
		folder = filepath.Dir(folder)
	}
	if err := unix.Access(folder, unix.W_OK); err != nil {
		return nil, fault.Wrap(fault.Forbidden, "The configuration in "+folder+" cannot be written ("+err.Error()+
			"): run this as root, name another configuration with --config, or leave it as it is with --no-config", err)
	}
	return p, nil
}

// add adds a change, unless the file is already as wanted.
func (p *Placement) add(one change, stamp string) error {
	former, _, err := readSmall(one.target)
	switch {
	case one.text == nil && errors.Is(err, fs.ErrNotExist), one.text != nil && err == nil && bytes.Equal(former, one.text):
		return nil
	case err == nil:
		one.aside = one.target + KeptSuffix + stamp
	case !errors.Is(err, fs.ErrNotExist):
		return unreadable(err)
	}
	p.Written, p.changes = append(p.Written, one.target), append(p.changes, one)
	return nil
}

// modeOf returns the mode with which a file of a backup is restored, and reports whether
// it is restored at all: the main file, conf.d, credentials, and what the restored
// configuration names in a folder that is gatehouse's alone. A backup chooses neither
// names nor modes beyond these.
func (c Configuration) modeOf(e Entry, named []string) (mode os.FileMode, ours bool) {
	mode = 0o640
	if e.Mode&0o004 != 0 {
		mode = 0o644
	}
	below := strings.TrimPrefix(e.Name, underConfig)
	folder, name := filepath.Split(below)
	switch {
	case e.Name == mainConfig:
		return mode, true
	case folder == "conf.d/":
		return mode, isConfig("conf.d", name)
	case folder == "credentials/":
		return 0o600, isConfig("credentials", name)
	case filepath.Base(filepath.Dir(c.Main)) != "gatehouse" || !slices.Contains(named, c.target(e.Name)):
		return 0, false
	}
	own := strings.HasPrefix(name, "first-boot") || strings.HasPrefix(name, "gatehouse")
	hidden := strings.HasPrefix(below, ".") || strings.Contains(below, "/.")
	return mode, !own && !hidden && !strings.HasPrefix(below, "conf.d/") && !strings.HasPrefix(below, "credentials/")
}

// Write writes the files, each atomically; the former one gets another name.
func (p *Placement) Write() error {
	for _, one := range p.changes {
		if err := one.write(); err != nil {
			return fault.Wrap(fault.Unavailable, "The gateway is restored, but not all of its configuration: "+one.target+
				" cannot be written ("+reason(err)+"): correct that and restore again", errors.Join(ErrBegun, err))
		}
	}
	return nil
}

func (c change) write() error {
	if c.text == nil {
		return durable.Rename(c.target, c.aside)
	}
	if c.aside != "" { // with owner and mode; it has both names until the new one is there
		if err := os.Link(c.target, c.aside); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if folder := filepath.Dir(c.target); !isThere(folder) { // for the service too, whatever the umask is
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.Chmod(folder, 0o755), durable.Sync(filepath.Dir(folder))); err != nil { //nolint:gosec // its private files are 0600
			return err
		}
	}
	return durable.WriteGroup(c.target, c.text, c.mode, c.group)
}
