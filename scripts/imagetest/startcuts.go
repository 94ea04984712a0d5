package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// startedFile, in the folder of the trial, has a line for each cut after which the machine
// was started and was well.
const startedFile = "started"

// startCuts starts the machine after some of the distinct cuts, several at once. It leaves
// out those that an earlier run has started (-replay).
func (t *trial) startCuts(ctx context.Context, j *judge, a *answers, distinct []cut) error {
	before, err := os.ReadFile(filepath.Join(t.dir, startedFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	chosen := choose(len(distinct), t.cuts)
	var starts []cutStart
	for _, i := range chosen {
		if !strings.Contains("\n"+string(before), "\n"+distinct[i].name()+" ") {
			starts = append(starts, cutStart{cut: distinct[i], answered: a.before(distinct[i].Write)})
		}
	}
	earlier := len(chosen) - len(starts)
	started, err := os.OpenFile(filepath.Join(t.dir, startedFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer started.Close()
	var mu sync.Mutex // guards doors, slots and what is written to started
	var doors []float64
	slots := map[string]int{}
	j.rewind(false)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(t.atOnce)
	for i, s := range starts {
		if inner.Err() != nil {
			break
		}
		j.recording.Play(s.cut.Write)
		if s.trial, err = t.makeCut(inner, j, s.cut, i); err != nil {
			err = fmt.Errorf("%s: %w", s.cut.name(), err)
			break
		}
		group.Go(func() error {
			door, slot, err := s.run(inner)
			if err != nil {
				return fmt.Errorf("%s of %d, after which slot %s is to start: %w", s.cut.name(), len(j.recording.Writes), s.cut.Slot, err)
			}
			mu.Lock()
			defer mu.Unlock()
			doors = append(doors, door)
			slots[slot]++
			t.say("%s, %d of %d: slot %s started, first door after %.1f s", s.cut.name(), earlier+len(doors), len(chosen), slot, door)
			_, err = fmt.Fprintf(started, "%s slot %s, first door after %.1f s\n", s.cut.name(), slot, door)
			return err
		})
	}
	if err := errors.Join(group.Wait(), err, ctx.Err()); err != nil {
		return err
	}
	if len(doors) > 0 {
		slices.Sort(doors)
		t.say("%d power cuts in the update, the machine started after each. In this run %d: slot a %d times, slot b %d times; first door after %.1f s (median), %.1f s (worst)",
			len(chosen), len(doors), slots["a"], slots["b"], doors[len(doors)/2], doors[len(doors)-1])
	}
	return nil
}

// choose returns at most limit of the indices below count, in ascending order and spread
// evenly. A larger limit only adds to them.
func choose(count, limit int) (chosen []int) {
	width := bits.Len(uint(max(count-1, 0)))
	for i := range uint64(1) << width {
		if index := int(bits.Reverse64(i) >> (64 - width)); index < count && len(chosen) < limit {
			chosen = append(chosen, index)
		}
	}
	slices.Sort(chosen)
	return chosen
}

// name says where the cut is.
func (c cut) name() string { return fmt.Sprintf("power cut at write %d (%d)", c.Write, c.Keep) }

// cutStart is a start of the machine after a power cut.
type cutStart struct {
	cut      cut
	answered []string // unlocks before it
	trial    *trial   // with a folder of its own
}

// run starts the machine, opens a door and looks at the journal. It returns after how many
// seconds a door opened and which slot runs.
func (s *cutStart) run(ctx context.Context) (door float64, slot string, err error) {
	t := s.trial
	m, err := t.powerOn(ctx, power{})
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = m.cutPower() }()
	if door, slot, err = t.doorAfterCut(ctx, m); err != nil {
		return 0, "", fmt.Errorf("%w (the console is in %s)", err, m.log)
	}
	if m.starts() == 1 && slot != s.cut.Slot { // after a second one either slot may run
		return 0, "", fmt.Errorf("slot %s started", slot)
	}
	if err := m.cutPower(); err != nil {
		return 0, "", err
	}
	d := t.pullData(ctx)
	if d.err != nil {
		return 0, "", d.err
	}
	own, _ := t.record.copies()
	for _, id := range slices.Concat(s.answered, slices.Collect(maps.Keys(own))) {
		if !d.unlocks[id] {
			return 0, "", fmt.Errorf("the journal lacks the unlock %s, which was answered", id)
		}
	}
	return door, slot, os.RemoveAll(t.dir)
}

// makeCut makes the disks as a power cut leaves them, in a folder of their own.
func (t *trial) makeCut(ctx context.Context, j *judge, c cut, number int) (*trial, error) {
	other := *t
	other.dir = filepath.Join(t.dir, fmt.Sprintf("cut%03d", number))
	other.disk, other.record = filepath.Join(other.dir, "cut.img"), newRecord()
	if err := errors.Join(os.RemoveAll(other.dir), os.Mkdir(other.dir, 0o700)); err != nil {
		return nil, err
	}
	for disk, suffix := range []string{"", ".vars"} {
		if err := copyFile(ctx, filepath.Join(t.dir, "before.img")+suffix, other.disk+suffix); err != nil {
			return nil, err
		}
		file, err := os.OpenFile(other.disk+suffix, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		size, err := file.Seek(0, io.SeekEnd)
		if err = errors.Join(err, j.recording.Cut(disk, c.Keep).WriteTo(file, 0, size), file.Close()); err != nil {
			return nil, err
		}
	}
	return &other, nil
}

// doorAfterCut waits until a door opens, and returns after how many seconds, and which
// slot runs.
func (t *trial) doorAfterCut(ctx context.Context, m *machine) (door float64, slot string, err error) {
	stop, err := t.playStations(ctx, m)
	if err != nil {
		return 0, "", err
	}
	defer stop()
	client, err := m.connect(ctx, t.name)
	if err == nil {
		err = t.openDoor(ctx, client)
	}
	if err != nil {
		return 0, "", err
	}
	door = m.onSince()
	if n := m.starts(); n > 2 {
		return 0, "", fmt.Errorf("it took %d starts until a door opened", n)
	}
	s, err := m.openShell(ctx)
	if err != nil {
		return 0, "", err
	}
	slot, err = s.run(ctx, `sed 's/.*gatehouse.slot=\(.\).*/\1/' /proc/cmdline`)
	return door, slot, err
}
