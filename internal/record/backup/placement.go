package backup

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/fault"
)

// A restore first writes a file of the configuration beside its final path, and keeps
// the file that was there.
const (
	restoredSuffix = ".restored"
	keptSuffix     = ".before-restore-"
)

// change is what a restore does to one file of the configuration.
type change struct {
	Target string `json:"target"`
	Kept   string `json:"kept,omitempty"` // where the present file goes; "": there is none
	Gone   bool   `json:"gone,omitempty"` // whether nothing comes in its place

	text  []byte
	mode  os.FileMode
	group int
}

// Placement is a restored configuration on its way into place. The owner of the
// configuration's folder, on a board root, prepares it and carries it out: everything
// it acts on comes from the memory of that process, or from a file in that folder. Of
// the data directory, which belongs to another user, it uses the path only.
type Placement struct {
	ID      string   `json:"id"`   // random, in the marker of the data directory too
	Data    string   `json:"data"` // the data directory that it goes with
	Changes []change `json:"changes"`

	LeftOut []string `json:"-"` // names in the backup that are no files of a configuration

	note   string // the path of the file with this placement
	before hook
}

// Intent describes what a placement belongs to.
type Intent struct {
	Data  string   // the data directory
	Named []string // files that the restored configuration names
	Group int      // of the files that are not public; only root sets it
	Stamp string   // ends the names of what is kept; see [Stamp]
}

// Keeper works in the data directory, as its owner. [*Staged] is one.
type Keeper interface {
	// Commit puts the data in place. When it returns nil, or [ErrBegun], the restored
	// gateway is the one that starts next.
	Commit(ctx context.Context, t Terms) (Restored, error)
	// Forget ends the restore.
	Forget() error
}

// notePath is where a placement is noted.
func (c Configuration) notePath() string { return filepath.Join(filepath.Dir(c.Main), markerName) }

// Prepare decides what to do with the files of a draft, and changes nothing. Files that
// are already there unchanged are left. Files of conf.d that the backup does not have
// are removed, because they would be read too.
func (c Configuration) Prepare(d Draft, i Intent) (*Placement, error) {
	p := &Placement{ID: rand.Text(), Data: i.Data, Changes: []change{}, note: c.notePath()}
	wanted := make(map[string]bool)
	for _, f := range d.files {
		mode, ours := c.modeOf(f.Entry, i.Named)
		if !ours {
			p.LeftOut = append(p.LeftOut, strings.TrimPrefix(f.Name, underConfig))
			continue
		}
		target := c.target(f.Name)
		wanted[target] = true
		present, err := os.ReadFile(target) //nolint:gosec // a file of the configuration
		if err == nil && bytes.Equal(present, f.text) {
			continue
		}
		one := change{Target: target, text: f.text, mode: mode, group: i.Group}
		if !errors.Is(err, fs.ErrNotExist) {
			one.Kept = target + keptSuffix + i.Stamp
		}
		p.Changes = append(p.Changes, one)
	}
	present, err := c.paths()
	if err != nil && !errors.Is(err, syscall.ENOTDIR) {
		return nil, unreadable(err)
	}
	for _, path := range present {
		if filepath.Dir(path) == filepath.Join(filepath.Dir(c.Main), "conf.d") && !wanted[path] {
			p.Changes = append(p.Changes, change{Target: path, Kept: path + keptSuffix + i.Stamp, Gone: true})
		}
	}
	return p, nil
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
	own := strings.HasPrefix(name, "first-boot") || strings.HasPrefix(name, "gatehouse") || name == markerName
	hidden := strings.HasPrefix(below, ".") || strings.Contains(below, "/.")
	return mode, !own && !hidden && !strings.HasPrefix(below, "conf.d/") && !strings.HasPrefix(below, "credentials/")
}

// lay writes the restored file beside its final path, durably.
func (c change) lay() error {
	folder := os.FileMode(0o755)
	if c.mode == 0o600 {
		folder = 0o700 // what is private in a folder that did not exist
	}
	if err := makeFolder(filepath.Dir(c.Target), folder); err != nil {
		return err
	}
	group := durable.OwnGroup
	if c.mode == 0o640 && os.Geteuid() == 0 {
		group = c.group
	}
	return durable.WriteGroup(c.Target+restoredSuffix, c.text, c.mode, group)
}

// makeFolder makes a folder of the configuration, whatever the umask is. One that is
// there stays as it is.
func makeFolder(path string, mode os.FileMode) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(os.MkdirAll(path, mode), os.Chmod(path, mode), durable.Sync(filepath.Dir(path)))
}

// Carry restores the data and this configuration, so that after a power cut either both
// or neither are restored. It first writes a note of the placement. The commit of the
// data decides: [Configuration.Resume] finishes the placement only after it. A nil
// placement restores the data alone.
func (p *Placement) Carry(ctx context.Context, k Keeper, t Terms) (Restored, error) {
	if p == nil || len(p.Changes) == 0 {
		return k.Commit(ctx, t)
	}
	if err := p.keep(); err != nil {
		return Restored{}, err
	}
	t.Configuration = p.ID
	r, err := k.Commit(ctx, t)
	if err != nil {
		return r, err
	}
	if err := p.finish(k); err != nil {
		return r, begun(err)
	}
	return r, nil
}

// finish puts the configuration in place and removes its note and its marker.
func (p *Placement) finish(k interface{ Forget() error }) error {
	if err := p.place(); err != nil {
		return err
	}
	if err := k.Forget(); err != nil {
		return err
	}
	return p.forget()
}

// keep notes the placement and writes the files beside their places. The note comes
// first, so that [Configuration.Resume] removes what a power cut leaves.
func (p *Placement) keep() error {
	if err := p.writeNote(); err != nil {
		return unwritable(p.note, err)
	}
	for _, c := range p.Changes {
		if c.Gone {
			continue
		}
		if err := p.before.do("lay configuration", c.lay); err != nil {
			return unwritable(c.Target, err)
		}
	}
	return nil
}

func unwritable(path string, err error) error {
	return fault.Wrap(fault.Unavailable, "The configuration file "+path+
		" cannot be written: run this as root, name another configuration with --config, or leave it as it is with --no-config", err)
}

func (p *Placement) writeNote() error {
	if err := makeFolder(filepath.Dir(p.note), 0o755); err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("noting the restore: %w", err)
	}
	return p.before.do("write note", func() error { return durable.Write(p.note, text, 0o600) })
}

// forget removes the note.
func (p *Placement) forget() error {
	err := p.before.do("forget note", func() error { return os.Remove(p.note) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.Sync(filepath.Dir(p.note))
}

// Discard removes the files that wait beside their final paths, and the note.
func (p *Placement) Discard() error {
	errs := []error{removeIfThere(p.note + ".new")}
	for _, c := range p.Changes {
		errs = append(errs, removeIfThere(c.Target+restoredSuffix), removeIfThere(c.Target+restoredSuffix+".new"))
	}
	return errors.Join(append(errs, p.forget())...)
}

// removeIfThere removes a file if it exists.
func removeIfThere(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

// Written lists the files that are written or set aside, and where the former ones are
// kept.
func (p *Placement) Written() (targets, aside []string) {
	if p == nil {
		return nil, nil
	}
	for _, c := range p.Changes {
		targets = append(targets, c.Target)
		if c.Kept != "" {
			aside = append(aside, c.Kept)
		}
	}
	return targets, aside
}

// place puts every remaining file in place.
func (p *Placement) place() error {
	for _, c := range p.Changes {
		if err := p.placeFile(c); err != nil {
			return fmt.Errorf("placing %s: %w", c.Target, err)
		}
	}
	return nil
}

// placeFile puts one file in place, unless that was done before.
func (p *Placement) placeFile(c change) error {
	waiting, err := present(filepath.Dir(c.Target), filepath.Base(c.Target)+restoredSuffix)
	if err != nil || len(waiting) == 0 && !c.Gone {
		return err
	}
	if c.Kept != "" {
		if err := p.keepFile(c); err != nil {
			return err
		}
	}
	if !c.Gone {
		if err := p.before.do("place configuration", func() error { return durable.Rename(c.Target+restoredSuffix, c.Target) }); err != nil {
			return err
		}
	}
	return durable.Sync(filepath.Dir(c.Target))
}

// keepFile renames the present file to its other name. If another file replaces it, it
// has both names until then, so that there always is one.
func (p *Placement) keepFile(c change) error {
	err := p.before.do("keep configuration", func() error {
		if c.Gone {
			return durable.Rename(c.Target, c.Kept)
		}
		return os.Link(c.Target, c.Kept)
	})
	if errors.Is(err, fs.ErrExist) || c.Gone && errors.Is(err, fs.ErrNotExist) {
		return nil // done before
	}
	return err
}

// Resume finishes the configuration of a restore that was interrupted, or undoes it
// when the data was never restored. find completes what was begun in a data directory,
// and returns the id of the placement that is waited for there, or "", and the way to
// forget it. It reports whether there was anything to do. Forbidden if another user
// must run it.
func (c Configuration) Resume(find func(data string) (id string, k interface{ Forget() error }, err error)) (done bool, err error) {
	return c.resume(find, nil)
}

func (c Configuration) resume(find func(data string) (string, interface{ Forget() error }, error), before hook) (bool, error) {
	p := Placement{note: c.notePath(), before: before}
	text, err := os.ReadFile(p.note)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_ = os.Remove(p.note + ".new") // of a restore that had not begun
		return false, nil
	case errors.Is(err, fs.ErrPermission):
		return false, fault.Wrap(fault.Forbidden, "A restore of the configuration was interrupted: run gatehouse restore --complete as root", err)
	case err == nil:
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return false, fault.Wrap(fault.Unavailable, p.note+", which a restore has left, cannot be read: remove it and restore again", err)
	}
	id, k, err := find(p.Data)
	if err != nil {
		return false, err
	}
	if id == p.ID {
		return true, p.finish(k)
	}
	return true, p.Discard()
}
