//go:build board

package boardtest_test

import (
	"encoding/json"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

// A full disk keeps no door shut, and nothing is missing from the journal when
// there is room again.
func TestFullDisk(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := newBoard(t, suite)
		b.mountDisk("/var/lib/gatehouse", 16)
		b.switchOn()
		b.install(version)
		b.allowUnlocks()
		b.hurryWatchdog()
		d := b.startDoor(1042)
		d.mustOpen()
		b.sh("dd if=/dev/zero of=/var/lib/gatehouse/filler bs=4k 2>/dev/null || true; sync")
		d.mustOpen() // there is no room for its record
		d.openUntilFed()
		b.awaitStatus("The storage takes no writes", true)
		b.sh("rm /var/lib/gatehouse/filler")
		b.awaitStatus("The storage takes no writes", false)
		d.mustOpen()
		b.awaitJournal(d)
		b.sh("gatehouse journal verify")
		if n := b.number(service, "NRestarts"); n != 0 {
			t.Errorf("the gateway ended by itself %d times", n)
		}
	})
}

// After a reboot everything is as before, and nobody has to do anything.
func TestReboot(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		d := b.startDoor(1042)
		d.mustOpen()
		b.sh("systemctl reboot")
		b.awaitBoot(2)
		b.awaitReady()
		d.mustOpen() // with the access token of before
		b.awaitJournal(d)
		b.sh("gatehouse journal verify")
		if failed := b.sh("systemctl --failed --no-legend --plain"); failed != "" {
			t.Errorf("these units failed: %s", failed)
		}
	})
}

// awaitJournal waits until the journal has every opening of the door, as a success.
func (b *board) awaitJournal(d *door) {
	b.Helper()
	var missing []site.CommandID
	await.Until(b, "the journal is complete", func() bool {
		missing = missing[:0]
		recorded := b.recorded()
		d.mu.Lock()
		defer d.mu.Unlock()
		for id := range d.opened {
			if !recorded[id] {
				missing = append(missing, id)
			}
		}
		return len(missing) == 0
	})
}

// recorded returns the commands that the journal has, each with its outcome.
func (b *board) recorded() map[site.CommandID]bool {
	b.Helper()
	all := make(map[site.CommandID]bool)
	var records []site.Record
	b.must(json.Unmarshal([]byte(b.sh("gatehouse journal --json")), &records))
	for _, r := range records {
		if r.Kind == site.KindUnlock && r.Outcome != "" {
			all[r.Command] = true
		}
	}
	return all
}
