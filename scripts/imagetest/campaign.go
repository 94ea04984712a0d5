package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/site"
	"gatehouse/scripts/imagetest/fat"
	"gatehouse/scripts/imagetest/tape"
)

// recordEvery is how often an app unlocks while an update is recorded.
const recordEvery = 3 * time.Second

// answers are the unlocks that were answered while an update was recorded.
type answers struct {
	mu  sync.Mutex // guards all
	ids []string
	at  []int // how many writes were recorded when each was answered
}

// before returns those that were answered before a write.
func (a *answers) before(write int) []string {
	return a.ids[:sortSearch(a.at, write)]
}

func sortSearch(at []int, write int) int {
	n, _ := slices.BinarySearch(at, write+1)
	return n
}

// powerCuts records an update with all that it writes, from the command to the commit,
// with a database that is migrated in the trial; then it cuts the power at each write of
// it, in a model, and for some of them in the machine.
func (t *trial) powerCuts(ctx context.Context) error {
	j, a, err := t.recordUpdate(ctx)
	if err != nil {
		return err
	}
	return t.tryCuts(ctx, j, a)
}

// tryCuts cuts the power in the model, unless an earlier run has, and in the machine.
func (t *trial) tryCuts(ctx context.Context, j *judge, a *answers) error {
	file := filepath.Join(t.dir, "cuts.json")
	var distinct []cut
	err := load(file, &distinct)
	if errors.Is(err, fs.ErrNotExist) {
		if distinct, err = t.checkCuts(ctx, j, a, false); err == nil && t.control {
			err = t.checkControl(ctx, j, a)
		}
		if err == nil {
			err = save(file, distinct)
		}
	}
	if err != nil {
		return err
	}
	return t.startCuts(ctx, j, a, distinct)
}

// recordUpdate records the update, and returns who judges its cuts.
func (t *trial) recordUpdate(ctx context.Context) (*judge, *answers, error) {
	name, version, err := t.makeGood(ctx)
	if err != nil {
		return nil, nil, err
	}
	beforeDisk := filepath.Join(t.dir, "before.img")
	if err := errors.Join(copyFile(ctx, t.disk, beforeDisk), copyFile(ctx, t.disk+".vars", beforeDisk+".vars")); err != nil {
		return nil, nil, err
	}
	m, err := t.powerOn(ctx, power{record: filepath.Join(t.dir, "recording")})
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = m.cutPower() }()
	c, err := m.connect(ctx, t.name)
	if err != nil {
		return nil, nil, err
	}
	stop, err := t.playStations(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	defer stop()
	if err := errors.Join(c.login(ctx, t.site.Email, t.site.Password), t.stationsOnline(ctx, m)); err != nil {
		return nil, nil, err
	}
	a := &answers{}
	stopLoad := t.slowLoad(ctx, m, c, a)
	defer stopLoad()
	if err := t.install(ctx, m, "gatehouse update "+t.updates+name); err != nil {
		return nil, nil, err
	}
	t.say("recorded: the update is written after %d writes and flushes", m.disks.Now())
	st, err := m.outcome(ctx, version)
	if err != nil {
		return nil, nil, err
	}
	if st.Last.Outcome != site.UpdateCommitted {
		return nil, nil, fmt.Errorf("the update was not committed: %s", st.Last.Reason)
	}
	stopLoad()
	t.say("recorded: committed after %d writes and flushes, with %d unlocks answered", m.disks.Now(), len(a.ids))
	recording, err := m.disks.Recording(beforeDisk, beforeDisk+".vars")
	if err != nil {
		return nil, nil, err
	}
	if err := save(filepath.Join(t.dir, "recording.json"), saved{recording.Writes, t.site, a.ids, a.at}); err != nil {
		return nil, nil, err
	}
	j, err := t.newJudge(ctx, recording, beforeDisk, version)
	return j, a, err
}

// saved is a recording and what was answered in it, to go on with it (-replay).
type saved struct {
	Writes []tape.Write
	Site   siteFile
	IDs    []string
	At     []int
}

func save(file string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func load(file string, content any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, content)
}

// replay goes on with a recording that an earlier run has left with -keep.
func (t *trial) replay(ctx context.Context) error {
	var s saved
	if err := load(filepath.Join(t.dir, "recording.json"), &s); err != nil {
		return err
	}
	t.site = s.Site
	before := filepath.Join(t.dir, "before.img")
	r, err := tape.Load(filepath.Join(t.dir, "recording"), s.Writes, []bool{false, true}, before, before+".vars")
	if err != nil {
		return err
	}
	t.binary, t.next, t.disk = filepath.Join(t.dir, "gatehouse"), filepath.Join(t.dir, "gatehouse-next"), before
	t.workshop = &workshop{folder: filepath.Join(t.dir, "updates"), keys: filepath.Join(t.dir, "update-keys")}
	if err := t.workshop.open(filepath.Join(t.workshop.folder, "good.update")); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(t.dir, "judge")); err != nil {
		return err
	}
	j, err := t.newJudge(ctx, r, before, t.workshop.good.Manifest.Version)
	if err != nil {
		return err
	}
	return t.tryCuts(ctx, j, &answers{ids: s.IDs, at: s.At})
}

// slowLoad unlocks now and then until the function that it returns is called.
func (t *trial) slowLoad(ctx context.Context, m *machine, c *client, a *answers) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			id, success, err := c.unlock(ctx, t.site.Stations[0].Token, 1)
			if err == nil && success {
				a.mu.Lock()
				a.ids, a.at = append(a.ids, id), append(a.at, m.disks.Now())
				a.mu.Unlock()
				t.record.answer(id)
			}
			pause(ctx, recordEvery)
		}
	})
	return func() { cancel(); running.Wait() }
}

// newJudge returns a judge that knows what is whole: what there was before the recording
// in slot a, and the update in slot b.
func (t *trial) newJudge(ctx context.Context, r *tape.Recording, before, version string) (*judge, error) {
	parts, err := t.partitions(ctx)
	if err != nil {
		return nil, err
	}
	j := &judge{
		t: t, recording: r, parts: parts, folder: filepath.Join(t.dir, "judge"),
		boots: map[uint64]boot{}, sums: map[[2]uint64][sha256.Size]byte{}, roots: map[[3]uint64][sha256.Size]byte{},
		shots: map[uint64]string{}, datas: map[uint64]data{}, versions: map[string]release{}, untouched: map[string][sha256.Size]byte{},
	}
	if err := os.Mkdir(j.folder, 0o700); err != nil {
		return nil, err
	}
	if err := cutOut(ctx, before, parts["data"], filepath.Join(j.folder, "data.before")); err != nil {
		return nil, err
	}
	j.rewind(false)
	schema, err := newestSchema()
	if err != nil {
		return nil, err
	}
	view := r.Cut(card, tape.KeepNone)
	f, err := fat.Open(j.section(view, "boot"))
	if err != nil {
		return nil, err
	}
	now, err := j.readSlot(view, f, "a")
	if err != nil {
		return nil, err
	}
	size := parts["root-a"].size
	root, err := j.root(view, "a", size)
	if err != nil {
		return nil, err
	}
	j.versions[now.version] = release{schema, now.kernel, now.initrd, root, size}
	m := t.workshop.good.Manifest
	j.versions[version] = release{schema + 1, m.Part(updatefile.Kernel).SHA256, m.Part(updatefile.Initrd).SHA256, m.Unpacked().SHA256, m.Unpacked().Size}
	return j, j.noteUntouched(view, f)
}

// noteUntouched notes the files of the boot partition that no update may change.
func (j *judge) noteUntouched(view *tape.View, f *fat.FS) error {
	files, err := f.Files("")
	if err != nil {
		return err
	}
	for _, name := range files {
		folder, _, _ := strings.Cut(strings.ToLower(name), "/")
		if folder == "gatehouse" || folder == "loader" {
			continue
		}
		if j.untouched[name], err = j.sum(view, f, name); err != nil {
			return err
		}
	}
	return nil
}

// rewind goes back to the start of the recording.
func (j *judge) rewind(lies bool) {
	j.recording.Rewind(lies)
	j.regions = map[string]*tape.Region{}
	for name, p := range j.parts {
		j.regions[name] = j.recording.Watch(card, p.start, p.size)
	}
	j.flash = j.recording.Watch(flash, 0, 64<<20)
}

// cut is a power cut that is to be tried in the machine.
type cut struct {
	Write int
	Keep  tape.Keep
	Slot  string // that starts then
}

// bulk is the length of a write, in bytes, that is content of the update alone: what is
// left of several together is judged with the next smaller write.
const bulk = 64 << 10

// keeps are what of the writes that were not flushed power cuts leave.
func keeps(write int) []tape.Keep {
	return []tape.Keep{tape.KeepNone, tape.KeepAll, tape.Keep(write)*4 + 4, tape.Keep(write)*4 + 6}
}

// checkCuts judges a cut at each write, and returns those after which the disks differ in
// more than what the update writes to the slot that does not start.
func (t *trial) checkCuts(ctx context.Context, j *judge, a *answers, lies bool) (distinct []cut, err error) {
	began, said := time.Now(), time.Now()
	j.rewind(lies)
	known := map[[3]uint64]bool{}
	checked, starts := 0, map[string]int{}
	for write := 0; write <= len(j.recording.Writes); write++ {
		j.recording.Play(write)
		if time.Since(said) > time.Minute {
			said = time.Now()
			t.say("model: at write %d of %d", write, len(j.recording.Writes))
		}
		choices := keeps(write)
		if j.recording.Pending(card) == 0 || write > 0 && j.recording.Writes[write-1].Length >= bulk {
			choices = choices[:1]
		}
		for _, keep := range choices {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			o, err := j.start(ctx, keep, a.before(write))
			if err != nil {
				return nil, fmt.Errorf("the power cut at write %d of %d (%d): %w", write, len(j.recording.Writes), keep, err)
			}
			checked++
			starts[o.slot]++
			if !known[o.keys] {
				known[o.keys] = true
				distinct = append(distinct, cut{write, keep, o.slot})
			}
		}
	}
	t.say("model: %d power cuts at %d writes and flushes, %d distinct but for the slot that is written: %d times slot a starts, %d times slot b, always whole; nothing of the journal lost (%.0f s)",
		checked, len(j.recording.Writes), len(distinct), starts["a"], starts["b"], time.Since(began).Seconds())
	return distinct, nil
}

// checkControl judges the cuts with a disk that loses what was flushed, which must show.
func (t *trial) checkControl(ctx context.Context, j *judge, a *answers) error {
	_, err := t.checkCuts(ctx, j, a, true)
	if err == nil {
		return errors.New("the control: a disk that loses flushed writes goes unseen, so this test cannot tell a loss")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.say("control, whose disk loses flushed writes: found damage, as it must: %v", err)
	return nil
}
