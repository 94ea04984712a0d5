package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mostAnswers is up to how many unlocks are answered before the power is cut.
const mostAnswers = 60

// firstStart lets the machine start for the first time and apply its site file. It
// measures from power to the first door.
func (t *trial) firstStart(ctx context.Context) error {
	_, err := t.startFirst(ctx, power{})
	return err
}

// startFirst is firstStart. The machine that it returns is off.
func (t *trial) startFirst(ctx context.Context, p power) (*machine, error) {
	m, err := t.powerOn(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.cutPower() }()
	if err := t.applySite(ctx, m); err != nil {
		return nil, err
	}
	if err := m.pressButton(ctx); err != nil {
		return nil, err
	}
	return m, t.checkBoot(ctx)
}

// applySite waits until the machine, which starts for the first time, has applied its site
// file, and opens a door.
func (t *trial) applySite(ctx context.Context, m *machine) error {
	c, err := m.connect(ctx, t.name)
	if err != nil {
		return fmt.Errorf("the first start: %w", err)
	}
	t.say("first start: ready %.1f s after power on", m.onSince())
	applied := func() error { _, err := t.readBoot(ctx, doneName); return err }
	if err := await(ctx, "the site file is applied and wiped", applied); err != nil {
		_, _ = t.sayResult(ctx) // there may be none
		return err
	}
	t.first = m.onSince()
	t.say("first start: site file applied after %.1f s", t.first)
	t.name = siteName + ".local"
	stop, err := t.playStations(ctx, m)
	if err != nil {
		return err
	}
	defer stop()
	if err := t.openDoor(ctx, c); err != nil {
		_, _ = t.sayResult(ctx) // there may be none
		return err
	}
	t.say("first start: first door opened after %.1f s", m.onSince())
	return nil
}

// sayResult prints and returns what gatehouse-result.txt says.
func (t *trial) sayResult(ctx context.Context) (string, error) {
	result, err := t.readBoot(ctx, resultName)
	t.say("gatehouse-result.txt says:\n\t%s", strings.ReplaceAll(strings.TrimSpace(result), "\n", "\n\t"))
	return result, err
}

// openDoor logs in and opens the first door.
func (t *trial) openDoor(ctx context.Context, c *client) error {
	if err := c.login(ctx, t.site.Email, t.site.Password); err != nil {
		return err
	}
	return t.firstUnlock(ctx, c)
}

// checkBoot looks at the boot partition of the machine, which is off: the result,
// and nothing of the secrets.
func (t *trial) checkBoot(ctx context.Context) error {
	result, err := t.sayResult(ctx)
	if err != nil {
		return err
	}
	if err := t.leftOnBoot(ctx); err != nil {
		return err
	}
	if !strings.Contains(result, siteName+".local") || strings.Contains(result, "hostnamectl") {
		return errors.New("gatehouse-result.txt does not give the name on the network that the site file asks for")
	}
	for _, secret := range t.site.secrets() {
		if strings.Contains(result, secret) {
			return errors.New("gatehouse-result.txt tells a secret of the site file")
		}
	}
	t.say("none of the %d secrets of the site file is left on the boot partition", len(t.site.secrets()))
	return nil
}

// cutFirstStart cuts the power twice while another disk starts for the first time,
// then lets it: the site file must have been applied all the same.
func (t *trial) cutFirstStart(ctx context.Context) error {
	other := *t
	other.name, other.record = "localhost", newRecord()
	if err := other.makeDisk(ctx, "first.img"); err != nil {
		return err
	}
	for range 2 {
		if err := other.cutStart(ctx, t.first); err != nil {
			return err
		}
	}
	err := other.firstStart(ctx)
	t.starts = other.starts
	if err != nil {
		return fmt.Errorf("after two power cuts in the first start: %w", err)
	}
	return os.Remove(other.disk)
}

// cutPower starts the machine again and again, and cuts its power under load; and
// now and then while it starts. After each cut the journal on the disk must be whole
// and have every unlock that was answered, and every opening.
func (t *trial) cutPower(ctx context.Context) error {
	var ready, opened []float64
	for round := range t.loads {
		if round%3 == 1 {
			if err := t.cutStart(ctx, slices.Max(ready)); err != nil {
				return err
			}
		}
		r, o, err := t.cutUnderLoad(ctx, power{})
		if err != nil {
			return fmt.Errorf("cut %d: %w", round+1, err)
		}
		ready, opened = append(ready, r), append(opened, o)
		v, err := t.judge(ctx)
		if err != nil {
			return fmt.Errorf("after cut %d: %w", round+1, err)
		}
		t.say("cut %d under load: ready after %.1f s, first door after %.1f s; %d unlocks answered, %d of them without a record",
			round+1, r, o, v.answered, v.lost)
		if v.lost > 0 || v.unasked > 0 {
			return fmt.Errorf("after cut %d: the journal lacks %d answered unlocks and %d openings", round+1, v.lost, v.unasked)
		}
	}
	if t.loads > 0 {
		slices.Sort(ready)
		slices.Sort(opened)
		t.say("%d cuts under load: nothing lost; from power to ready %.1f s and to the first door %.1f s (medians)",
			t.loads, ready[len(ready)/2], opened[len(opened)/2])
	}
	return nil
}

// cutStart cuts the power at some moment in so many seconds of a start.
func (t *trial) cutStart(ctx context.Context, within float64) error {
	m, err := t.powerOn(ctx, power{})
	if err != nil {
		return err
	}
	pause(ctx, time.Duration(rand.Float64()*within*float64(time.Second)))
	t.say("cutting the power %.1f s into a start", m.onSince())
	return errors.Join(m.cutPower(), ctx.Err())
}

// cutUnderLoad starts the machine, lets all clients unlock, and cuts the power at
// some moment. It returns the seconds from power on to ready and to the first door.
func (t *trial) cutUnderLoad(ctx context.Context, p power) (ready, opened float64, err error) {
	m, err := t.powerOn(ctx, p)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, m.cut(p.lies)) }()
	c, err := m.connect(ctx, t.name)
	if err != nil {
		return 0, 0, err
	}
	ready = m.onSince()
	stopStations, err := t.playStations(ctx, m)
	if err != nil {
		return 0, 0, err
	}
	defer stopStations()
	if err := t.openDoor(ctx, c); err != nil {
		return 0, 0, err
	}
	opened = m.onSince()
	fire := t.record.arm(1 + rand.IntN(mostAnswers))
	stopLoad := t.load(ctx, c)
	defer stopLoad()
	select {
	case <-fire:
	case <-time.After(patience):
		return 0, 0, errors.New("the doors do not open under load")
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	return ready, opened, nil
}

// lastStart shows that the machine is well after all that.
func (t *trial) lastStart(ctx context.Context) error {
	m, err := t.powerOn(ctx, power{})
	if err != nil {
		return err
	}
	defer func() { _ = m.cutPower() }()
	c, err := m.connect(ctx, t.name)
	if err != nil {
		return err
	}
	stop, err := t.playStations(ctx, m)
	if err != nil {
		return err
	}
	defer stop()
	if err := t.openDoor(ctx, c); err != nil {
		return err
	}
	if err := m.pressButton(ctx); err != nil {
		return err
	}
	v, err := t.judge(ctx)
	if err == nil && v.lost+v.unasked > 0 {
		err = fmt.Errorf("the journal lacks %d answered unlocks and %d openings", v.lost, v.unasked)
	}
	if err == nil {
		t.say("in the end: %d unlocks answered, all among the %d in the journal", v.answered, v.records)
	}
	return err
}

// controlRun cuts the power with a disk that loses flushed writes as well. If the
// test then finds nothing missing, it could not find a loss at all.
func (t *trial) controlRun(ctx context.Context) error {
	if !t.control {
		return nil
	}
	control := *t
	control.disk, control.record = filepath.Join(t.dir, "control.img"), newRecord()
	if err := errors.Join(copyFile(ctx, t.disk, control.disk), copyFile(ctx, t.disk+".vars", control.disk+".vars")); err != nil {
		return err
	}
	if _, _, err := control.cutUnderLoad(ctx, power{lies: true}); err != nil {
		return fmt.Errorf("the control: %w", err)
	}
	v, err := control.judge(ctx)
	if err != nil {
		t.say("control, whose disk loses flushed writes: found damage, as it must: %v", err)
		return nil
	}
	if v.lost == 0 {
		return fmt.Errorf("the control lost none of %d answered unlocks, so this test cannot tell a loss", v.answered)
	}
	t.say("control, whose disk loses flushed writes: %d of %d answered unlocks are missing, as they must be", v.lost, v.answered)
	return nil
}
