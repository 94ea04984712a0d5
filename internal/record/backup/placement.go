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

// The names beside the configuration.
const (
	laidName   = ".restored"        // the folder with restored files
	noteName   = "restore.json"     // in that folder: what [Configuration.Resume] needs
	keptSuffix = ".before-restore-" // before the stamp, in the name of a file that was there
)

// Placement is a restored configuration on its way into place. The owner of the
// configuration's folder, on a board root, prepares it and carries it out: everything
// it acts on comes from the memory of that process, or from that folder. Of the data
// directory, which belongs to another user, it uses the path only.
//
// The restored files are laid in a folder, each with its final name and mode. What is
// still there has not been placed, as with the data.
type Placement struct {
	ID    string   `json:"id"`    // random, in the data directory too
	Data  string   `json:"data"`  // the data directory that it goes with
	Stamp string   `json:"stamp"` // ends the names of what is kept
	Gone  []string `json:"gone"`  // files of conf.d that the backup does not have

	LeftOut []string `json:"-"` // names in the backup that are no files of a configuration

	folder         string // of the configuration
	files          []restoredFile
	targets, aside []string
	before         hook
}

// restoredFile is a file of a configuration that is to be written.
type restoredFile struct {
	target string
	text   []byte
	mode   os.FileMode
	group  int
}

// Keeper works in the data directory, as its owner.
type Keeper interface {
	// Commit puts the data in place. When it returns nil, or [ErrBegun], the restored
	// gateway is the one that starts next.
	Commit(ctx context.Context, t Terms) (Restored, error)
	// Forget ends the restore.
	Forget() error
}

// Prepare decides what to do with the files of a draft, and changes nothing. Files that
// are already there unchanged are left. Files of conf.d that the backup does not have
// are removed, because they would be read too. The placement goes with the directory
// data; named are the files that the restored configuration names. Of root, files that
// are not public get the group. The stamp ends the names of what is kept; see [Stamp].
func (c Configuration) Prepare(d Draft, data string, named []string, group int, stamp string) (*Placement, error) {
	if os.Geteuid() != 0 {
		group = durable.OwnGroup
	}
	p := &Placement{ID: rand.Text(), Data: data, Stamp: stamp, Gone: []string{}, folder: filepath.Dir(c.Main)}
	wanted := make(map[string]bool)
	for _, f := range d.files {
		mode, ours := c.modeOf(f.Entry, named)
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
		of := durable.OwnGroup
		if mode == 0o640 {
			of = group
		}
		p.files = append(p.files, restoredFile{target, f.text, mode, of})
		p.targets = append(p.targets, target)
		if !errors.Is(err, fs.ErrNotExist) {
			p.aside = append(p.aside, p.kept(target))
		}
	}
	present, err := c.paths()
	if err != nil && !errors.Is(err, syscall.ENOTDIR) {
		return nil, unreadable(err)
	}
	for _, path := range present {
		if filepath.Dir(path) == filepath.Join(p.folder, "conf.d") && !wanted[path] {
			p.Gone = append(p.Gone, path)
			p.targets, p.aside = append(p.targets, path), append(p.aside, p.kept(path))
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
	own := strings.HasPrefix(name, "first-boot") || strings.HasPrefix(name, "gatehouse") || name == noteName
	hidden := strings.HasPrefix(below, ".") || strings.Contains(below, "/.")
	return mode, !own && !hidden && !strings.HasPrefix(below, "conf.d/") && !strings.HasPrefix(below, "credentials/")
}

func (p *Placement) note() string              { return filepath.Join(p.laid(), noteName) }
func (p *Placement) laid() string              { return filepath.Join(p.folder, laidName) }
func (p *Placement) kept(target string) string { return target + keptSuffix + p.Stamp }

// Written lists the files that are written or set aside, and where the former ones are
// kept.
func (p *Placement) Written() (targets, aside []string) {
	if p == nil {
		return nil, nil
	}
	return p.targets, p.aside
}

// Carry restores the data and this configuration, so that after a power cut either both
// or neither are restored. It first lays the files and writes a note of the placement.
// The commit of the data decides: [Configuration.Resume] finishes the placement only
// after it. A nil placement restores the data alone.
func (p *Placement) Carry(ctx context.Context, k Keeper, t Terms) (Restored, error) {
	if p == nil || len(p.targets) == 0 {
		return k.Commit(ctx, t)
	}
	if err := p.lay(); err != nil {
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

// lay writes the files, makes the folders that they go to, and writes the note. What a
// power cut leaves is in one folder, which [Configuration.Resume] removes.
func (p *Placement) lay() error {
	err := os.RemoveAll(p.laid())
	if err == nil {
		err = errors.Join(makeFolder(p.folder, 0o755), makeFolder(p.laid(), 0o700))
	}
	if err != nil {
		return unwritable(p.laid(), err)
	}
	for _, f := range p.files {
		if err := p.before.do("lay configuration", func() error { return p.layFile(f) }); err != nil {
			return unwritable(f.target, err)
		}
	}
	text, err := json.Marshal(p)
	if err == nil {
		err = p.before.do("write note", func() error { return durable.Write(p.note(), text, 0o600) })
	}
	return unwritable(p.note(), err)
}

func (p *Placement) layFile(f restoredFile) error {
	folder := os.FileMode(0o755)
	if f.mode == 0o600 {
		folder = 0o700 // what is private in a folder that did not exist
	}
	below, err := filepath.Rel(p.folder, f.target)
	if err != nil {
		return err
	}
	laid := filepath.Join(p.laid(), below)
	err = errors.Join(makeFolder(filepath.Dir(f.target), folder), makeFolder(filepath.Dir(laid), 0o700))
	if err != nil {
		return err
	}
	return durable.WriteGroup(laid, f.text, f.mode, f.group)
}

// makeFolder makes a folder of the configuration, whatever the umask is. One that is
// there stays as it is.
func makeFolder(path string, mode os.FileMode) error {
	if info, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
		}
		return err
	}
	return errors.Join(os.MkdirAll(path, mode), os.Chmod(path, mode), durable.Sync(filepath.Dir(path)))
}

func unwritable(path string, err error) error {
	return fault.Wrap(fault.Unavailable, "The configuration file "+path+
		" cannot be written: run this as root, name another configuration with --config, or leave it as it is with --no-config", err)
}

// finish puts the configuration in place and ends the restore.
func (p *Placement) finish(k interface{ Forget() error }) error {
	for _, target := range p.Gone {
		err := p.before.do("remove configuration", func() error { return durable.Rename(target, p.kept(target)) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("setting %s aside: %w", target, err)
		}
	}
	err := filepath.WalkDir(p.laid(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == p.note() {
			return err
		}
		return p.place(path)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := k.Forget(); err != nil {
		return err
	}
	return p.Discard()
}

// place puts one file in place. The file that was there has both names until then, so
// that there always is one.
func (p *Placement) place(path string) error {
	below, err := filepath.Rel(p.laid(), path)
	if err != nil {
		return err
	}
	target := filepath.Join(p.folder, below)
	err = p.before.do("keep configuration", func() error { return os.Link(target, p.kept(target)) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keeping %s: %w", target, err)
	}
	if err := p.before.do("place configuration", func() error { return durable.Rename(path, target) }); err != nil {
		return fmt.Errorf("placing %s: %w", target, err)
	}
	return nil
}

// Discard removes the files that were laid, and the note.
func (p *Placement) Discard() error {
	if !isThere(p.laid()) {
		return nil
	}
	err := p.before.do("discard", func() error { return os.RemoveAll(p.laid()) })
	return errors.Join(err, durable.Sync(p.folder))
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
	p := Placement{folder: filepath.Dir(c.Main), before: before}
	text, err := os.ReadFile(p.note())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, p.Discard() // of a restore that had not begun
	case errors.Is(err, fs.ErrPermission):
		return false, fault.Wrap(fault.Forbidden, "A restore of the configuration was interrupted: run gatehouse restore --complete as root", err)
	case err == nil:
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return false, fault.Wrap(fault.Unavailable, p.note()+", which a restore has left, cannot be read: remove it and restore again", err)
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
