package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // reads the journal of a board

	"gatehouse/scripts/imagetest/fat"
	"gatehouse/scripts/imagetest/tape"
)

// judge decides what a board would do that is switched on with disks as a power cut has
// left them, by what the firmware, the boot loader and the gateway are known to do. What
// it has found out of a part of a disk, it remembers.
type judge struct {
	t         *trial
	recording *tape.Recording
	parts     map[string]partition
	regions   map[string]*tape.Region
	flash     *tape.Region
	versions  map[string]release // by version: the two that are whole
	untouched map[string][sha256.Size]byte

	boots  map[uint64]boot
	sums   map[[2]uint64][sha256.Size]byte
	roots  map[[3]uint64][sha256.Size]byte
	shots  map[uint64]string
	datas  map[uint64]data
	folder string
}

// release is the content of a slot.
type release struct {
	schema               int
	kernel, initrd, root [sha256.Size]byte
	rootSize             int64 // in bytes; what stands after it in the partition is of no use
}

// boot is what is on a boot partition.
type boot struct {
	standard string          // the letter of the default
	slots    map[string]slot // by letter, those that the boot loader shows
	err      error
}

// slot is what starts from the boot partition.
type slot struct {
	version        string
	kernel, initrd [sha256.Size]byte
}

// data is what is on a data partition.
type data struct {
	schema  int
	unlocks map[string]bool // the commands in the journal
	trial   bool            // the state of updates has a trial
	schemas []string        // the copies from before migrations
	err     error
}

// finding of a cut: the slot that starts, or what is wrong.
type outcome struct {
	slot, version string
	keys          [3]uint64 // of the boot partition, the flash and the data
	unlocks       map[string]bool
}

// start decides what happens after a power cut at the moment of the recording. What was
// answered before it must be in the journal.
func (j *judge) start(ctx context.Context, keep tape.Keep, answered []string) (o outcome, err error) {
	view, flash := j.recording.Cut(card, keep), j.recording.Cut(flash, keep)
	o.keys = [3]uint64{view.Fingerprint(j.regions["boot"]), flash.Fingerprint(j.flash), view.Fingerprint(j.regions["data"])}
	b := j.boot(view, o.keys[0])
	if b.err != nil {
		return o, fmt.Errorf("the boot partition: %w", b.err)
	}
	shot, err := j.shot(flash, o.keys[1])
	if err != nil {
		return o, err
	}
	o.slot = b.standard
	if _, shown := b.slots[shot]; shown {
		o.slot = shot
	}
	s, shown := b.slots[o.slot]
	if !shown {
		return o, fmt.Errorf("slot %s is to start and has no kernel", o.slot)
	}
	o.version = s.version
	want, known := j.versions[s.version]
	root, err := j.root(view, o.slot, want.rootSize)
	switch {
	case err != nil:
		return o, err
	case !known || s.kernel != want.kernel || s.initrd != want.initrd:
		return o, fmt.Errorf("slot %s is to start and its kernel or initrd are not those of %q", o.slot, s.version)
	case root != want.root:
		return o, fmt.Errorf("slot %s is to start and its root is not that of %s", o.slot, s.version)
	}
	return o, j.judgeData(ctx, view, &o, want, b, answered)
}

// judgeData judges the data with which a version starts.
func (j *judge) judgeData(ctx context.Context, view *tape.View, o *outcome, starts release, b boot, answered []string) error {
	d, known := j.datas[o.keys[2]]
	if !known {
		d = j.data(ctx, view)
		j.datas[o.keys[2]] = d
	}
	if d.err != nil {
		return fmt.Errorf("the data partition: %w", d.err)
	}
	o.unlocks = d.unlocks
	for _, id := range answered {
		if !d.unlocks[id] {
			return fmt.Errorf("the journal lacks the unlock %s, which was answered", id)
		}
	}
	switch {
	case d.schema <= starts.schema:
	case !d.trial:
		return fmt.Errorf("%s is to start with a database of schema %d, and no trial has failed", o.version, d.schema)
	case len(d.schemas) == 0:
		return fmt.Errorf("%s is to start with a database of schema %d, and there is no copy of the one before", o.version, d.schema)
	}
	if o.slot != b.standard && !d.trial {
		return fmt.Errorf("slot %s is to start once and the state has no trial", o.slot)
	}
	return nil
}

// section returns a partition of a disk.
func (j *judge) section(view io.ReaderAt, name string) *io.SectionReader {
	return io.NewSectionReader(view, j.parts[name].start, j.parts[name].size)
}

func (j *judge) boot(view *tape.View, key uint64) boot {
	b, known := j.boots[key]
	if known {
		return b
	}
	b = boot{slots: map[string]slot{}}
	f, err := fat.Open(j.section(view, "boot"))
	if err != nil {
		b.err = err
	} else {
		b.err = j.readBoot(view, f, &b)
	}
	j.boots[key] = b
	return b
}

func (j *judge) readBoot(view *tape.View, f *fat.FS, b *boot) error {
	for name, want := range j.untouched {
		if got, err := j.sum(view, f, name); err != nil || got != want {
			return errors.Join(err, fmt.Errorf("%s has changed", name))
		}
	}
	text, err := f.ReadFile("loader/loader.conf")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if entry, found := strings.CutPrefix(strings.TrimSpace(line), "default "); found {
			b.standard = strings.TrimSuffix(strings.TrimPrefix(entry, "gatehouse-"), ".conf")
		}
	}
	for _, letter := range []string{"a", "b"} {
		s, err := j.readSlot(view, f, letter)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			// A slot of which no more than this is wrong must not be the one that starts.
			s = slot{version: "damaged: " + err.Error()}
		}
		b.slots[letter] = s
	}
	return nil
}

// readSlot reads a slot as the boot loader does, which does not show an entry without
// its kernel.
func (j *judge) readSlot(view *tape.View, f *fat.FS, letter string) (s slot, err error) {
	folder := "gatehouse/" + letter + "/"
	if s.kernel, err = j.sum(view, f, folder+"vmlinuz"); err != nil {
		return s, err
	}
	entry, err := f.ReadFile("loader/entries/gatehouse-" + letter + ".conf")
	if err != nil {
		return s, err
	}
	if !strings.Contains(string(entry), "\nlinux ") { // nor one without that line
		return s, fs.ErrNotExist
	}
	for line := range strings.Lines(string(entry)) {
		if version, found := strings.CutPrefix(strings.TrimSpace(line), "version "); found {
			s.version = version
		}
	}
	for _, want := range []string{"linux /" + folder + "vmlinuz\n", "initrd /" + folder + "initrd\n", "gatehouse.slot=" + letter} {
		if !strings.Contains(string(entry), want) {
			return s, fmt.Errorf("the entry has no %q", want)
		}
	}
	if s.initrd, err = j.sum(view, f, folder+"initrd"); errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there is no initrd")
	}
	return s, err
}

// sum returns the hash of a file on the boot partition.
func (j *judge) sum(view *tape.View, f *fat.FS, name string) (sum [sha256.Size]byte, err error) {
	extents, err := f.Extents(name)
	if err != nil {
		return sum, err
	}
	key := [2]uint64{1, 0}
	for _, e := range extents {
		at := j.parts["boot"].start + e.Offset
		key[0] = key[0]*31 + uint64(e.Offset)*7 + uint64(e.Size)
		key[1] = key[1]*31 + view.Key(at, e.Size)
	}
	if sum, known := j.sums[key]; known {
		return sum, nil
	}
	content, err := f.ReadFile(name)
	sum = sha256.Sum256(content)
	j.sums[key] = sum
	return sum, err
}

// root returns the hash of so many bytes of a slot's root.
func (j *judge) root(view *tape.View, letter string, size int64) (sum [sha256.Size]byte, err error) {
	region := "root-" + letter
	key := [3]uint64{uint64(letter[0]), uint64(size), view.Fingerprint(j.regions[region])}
	if sum, known := j.roots[key]; known {
		return sum, nil
	}
	hash := sha256.New()
	_, err = io.CopyBuffer(hash, io.NewSectionReader(view, j.parts[region].start, size), make([]byte, 1<<20))
	hash.Sum(sum[:0])
	j.roots[key] = sum
	return sum, err
}

// shot returns the letter of the slot that the next start tries once, "" for none.
func (j *judge) shot(view *tape.View, key uint64) (string, error) {
	if s, known := j.shots[key]; known {
		return s, nil
	}
	value, err := firmwareVariable(view, "LoaderEntryOneShot")
	s := strings.TrimSuffix(strings.TrimPrefix(value, "gatehouse-"), ".conf")
	if err == nil {
		j.shots[key] = s
	}
	return s, err
}

// data reads a data partition as the start of the board repairs it.
func (j *judge) data(ctx context.Context, view *tape.View) (d data) {
	part := filepath.Join(j.folder, "data.part")
	if d.err = copyFile(ctx, filepath.Join(j.folder, "data.before"), part); d.err != nil {
		return d
	}
	file, err := os.OpenFile(part, os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(view.WriteTo(file, j.parts["data"].start, j.parts["data"].size), file.Close())
	}
	if err != nil {
		return data{err: err}
	}
	return j.t.readData(ctx, part, filepath.Join(j.folder, "data"))
}

// readData reads a data partition in a file, which it repairs.
func (t *trial) readData(ctx context.Context, part, folder string) (d data) {
	if d.err = errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700)); d.err != nil {
		return d
	}
	if d.err = repair(ctx, part); d.err != nil {
		return d
	}
	if d.err = command(ctx, "debugfs", "-R", "rdump /lib/gatehouse "+folder, part); d.err != nil {
		return d
	}
	// For root, debugfs keeps the owner, who is the board's.
	if d.err = command(ctx, "chown", "-R", fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid()), folder); d.err != nil {
		return d
	}
	text, err := output(ctx, "debugfs", "-R", "cat /lib/gatehouse-update/state.json", part)
	if err != nil {
		return data{err: err}
	}
	var state struct{ Trial, TakeBack any }
	if _, text, _ = strings.Cut(text, "\n"); json.Unmarshal([]byte(text), &state) == nil {
		d.trial = state.Trial != nil || state.TakeBack == true
	}
	db := filepath.Join(folder, "gatehouse", "gatehouse.db")
	d.schemas, _ = filepath.Glob(db + ".schema*")
	if d.schema, d.unlocks, d.err = readJournal(ctx, db); d.err != nil {
		return d
	}
	binary := t.binary
	if schema, _ := newestSchema(); d.schema > schema {
		binary = t.next
	}
	if err := command(ctx, binary, "journal", "verify", db); err != nil {
		d.err = fmt.Errorf("the journal on the disk: %w", err)
	}
	return d
}

// readJournal returns the schema of a database, and the commands of the unlocks in its journal.
func readJournal(ctx context.Context, file string) (schema int, unlocks map[string]bool, err error) {
	if _, err := os.Stat(file); err != nil {
		return 0, nil, err
	}
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		return 0, nil, err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&schema); err != nil {
		return 0, nil, fmt.Errorf("reading %s: %w", file, err)
	}
	rows, err := db.QueryContext(ctx, "SELECT body ->> 'commandId' FROM journal WHERE body ->> 'kind' = 'unlock'")
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close()
	unlocks = map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return 0, nil, err
		}
		unlocks[id] = true
	}
	return schema, unlocks, rows.Err()
}
