package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// startCuts starts the machine after some of the cuts, evenly over the distinct ones.
func (t *trial) startCuts(ctx context.Context, j *judge, a *answers, distinct []cut) error {
	var doors []float64
	slots := map[string]int{}
	j.rewind(false)
	count := min(t.cuts, len(distinct))
	for i := range count {
		c := distinct[(i*len(distinct)+rand.IntN(len(distinct)))/count]
		j.recording.Play(c.write)
		door, slot, err := t.startCut(ctx, j, c, a.before(c.write))
		if err != nil {
			return fmt.Errorf("the power cut at write %d of %d (%d), after which slot %s is to start: %w", c.write, len(j.recording.Writes), c.keep, c.outcome.slot, err)
		}
		t.say("power cut %d of %d, at write %d: slot %s started, first door after %.1f s", i+1, count, c.write, slot, door)
		doors = append(doors, door)
		slots[slot]++
	}
	if len(doors) > 0 {
		slices.Sort(doors)
		t.say("%d power cuts in the update, each started: %d times slot a, %d times slot b; first door after %.1f s (median), %.1f s (worst)",
			count, slots["a"], slots["b"], doors[len(doors)/2], doors[len(doors)-1])
	}
	return nil
}

// startCut starts the machine after one cut, opens a door and looks at the journal.
func (t *trial) startCut(ctx context.Context, j *judge, c cut, answered []string) (door float64, letter string, err error) {
	other := *t
	other.disk, other.record = filepath.Join(t.dir, "cut.img"), newRecord()
	if err := other.makeCut(ctx, j, c); err != nil {
		return 0, "", err
	}
	m, err := other.powerOn(ctx, power{})
	t.starts = other.starts
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = m.cutPower() }()
	if door, letter, err = other.doorAfterCut(ctx, m); err != nil {
		return 0, "", fmt.Errorf("%w (the console is in %s)", err, m.log)
	}
	if err := m.cutPower(); err != nil {
		return 0, "", err
	}
	d := other.pullData(ctx)
	if d.err != nil {
		return 0, "", d.err
	}
	own, _ := other.record.copies()
	for _, id := range slices.Concat(answered, slices.Collect(maps.Keys(own))) {
		if !d.unlocks[id] {
			return 0, "", fmt.Errorf("the journal lacks the unlock %s, which was answered", id)
		}
	}
	return door, letter, os.Remove(m.log)
}

// makeCut makes the disks as a power cut leaves them.
func (t *trial) makeCut(ctx context.Context, j *judge, c cut) error {
	before := filepath.Join(t.dir, "before.img")
	for number, suffix := range []string{"", ".vars"} {
		if err := copyFile(ctx, before+suffix, t.disk+suffix); err != nil {
			return err
		}
		file, err := os.OpenFile(t.disk+suffix, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		size, err := file.Seek(0, io.SeekEnd)
		if err = errors.Join(err, j.recording.Cut(number, c.keep).WriteTo(file, 0, size), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// doorAfterCut waits until a door opens, and returns after how many seconds, and which
// slot runs.
func (t *trial) doorAfterCut(ctx context.Context, m *machine) (door float64, letter string, err error) {
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
	letter, err = s.run(ctx, `sed 's/.*gatehouse.slot=\(.\).*/\1/' /proc/cmdline`)
	return door, letter, err
}
