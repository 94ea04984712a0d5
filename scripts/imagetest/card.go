package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// What a day may write to the card, and the site of which that is promised.
const (
	cardStations   = 200
	cardDayUnlocks = 500
	cardLimit      = 25_000_000 // bytes
	cardMeasure    = time.Hour  // measured: the system log is saved in it
)

// cardDay measures what the machine writes to its disk in an hour of a usual day, with
// all that the system writes: stations report each minute, doors open now and then.
func (t *trial) cardDay(ctx context.Context) error {
	m, err := t.powerOn(ctx, power{})
	if err != nil {
		return err
	}
	defer func() { _ = m.cutPower() }()
	if err := t.applySite(ctx, m); err != nil {
		return err
	}
	c, err := m.connect(ctx, t.name)
	if err != nil {
		return err
	}
	stop, err := t.playStations(ctx, m)
	if err != nil {
		return err
	}
	defer stop()
	if err := errors.Join(c.login(ctx, t.site.Email, t.site.Password), t.stationsOnline(ctx, m)); err != nil {
		return err
	}
	s, err := m.openShell(ctx)
	if err != nil {
		return err
	}
	if err := t.fillLog(ctx, s, c); err != nil {
		return err
	}
	if err := c.login(ctx, t.site.Email, t.site.Password); err != nil { // its token lasts an hour
		return err
	}
	before, err := s.written(ctx)
	if err != nil {
		return err
	}
	end := time.Now().Add(cardMeasure)
	unlocks, err := t.openDoors(ctx, c, 24*time.Hour/cardDayUnlocks, func(int) bool { return time.Now().After(end) })
	if err != nil {
		return err
	}
	after, err := s.written(ctx)
	if err != nil {
		return err
	}
	doctor, err := s.run(ctx, "gatehouse doctor | grep -i writ")
	if err != nil {
		return err
	}
	hour := after.card - before.card
	t.say("the card: %.2f MB written in an hour with %d stations and %d unlocks, of which %.2f MB by the gateway; that is %.1f MB a day of at most %.0f MB",
		float64(hour)/1e6, len(t.site.Stations), unlocks, float64(after.gateway-before.gateway)/1e6, float64(24*hour)/1e6, cardLimit/1e6)
	t.say("the card: the doctor says: %s", doctor)
	if hour == 0 || 24*hour > cardLimit {
		return fmt.Errorf("%d bytes in an hour", hour)
	}
	return m.pressButton(ctx)
}

// fillLog opens doors until the file of SQLite's log no longer grows. Until then, which
// is about the first day, the file system writes more for each commit.
func (t *trial) fillLog(ctx context.Context, s *shell, c *client) error {
	for before := ""; ; {
		if _, err := t.openDoors(ctx, c, 0, func(unlocks int) bool { return unlocks == 100 }); err != nil {
			return err
		}
		size, err := s.run(ctx, "stat -c %s /var/lib/gatehouse/gatehouse.db-wal")
		t.say("the card: SQLite's log has %s bytes", size)
		if err != nil || size == before {
			return err
		}
		before = size
	}
}

// openDoors opens a door, waits, and so on until that is enough, and returns how many it opened.
func (t *trial) openDoors(ctx context.Context, c *client, wait time.Duration, enough func(unlocks int) bool) (unlocks int, err error) {
	for ; !enough(unlocks) && ctx.Err() == nil; pause(ctx, wait) {
		station := t.site.Stations[rand.IntN(len(t.site.Stations))]
		switch _, success, err := c.unlock(ctx, station.Token, 1); {
		case err != nil:
			return unlocks, err
		case !success:
			return unlocks, errNotOpened
		}
		unlocks++
	}
	return unlocks, ctx.Err()
}

// written is what was written since the start, in bytes.
type written struct{ card, gateway int64 }

// written reads the kernel's counts.
func (s *shell) written(ctx context.Context) (w written, err error) {
	out, err := s.run(ctx, `sync; awk '{print $7*512}' /sys/class/block/vda/stat; awk '/^write_bytes/{print $2}' /proc/$(systemctl show --property MainPID --value gatehouse)/io`)
	if err != nil {
		return w, err
	}
	fields := strings.Fields(out)
	if len(fields) != 2 {
		return w, fmt.Errorf("the counts are %q", out)
	}
	card, errCard := strconv.ParseInt(fields[0], 10, 64)
	gateway, errGateway := strconv.ParseInt(fields[1], 10, 64)
	return written{card, gateway}, errors.Join(errCard, errGateway)
}
