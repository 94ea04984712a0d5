//go:build board

package boardtest_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestKill(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		d := b.startDoor(1042)
		d.mustOpen()
		before := b.number(service, "MainPID")
		b.sh("systemctl kill --signal=KILL " + service)
		b.awaitActive(before)
		d.mustOpen() // with the access token of before
		if n := b.number(service, "NRestarts"); n != 1 {
			t.Errorf("systemd has started it again %d times", n)
		}
	})
}

// A gateway that hangs is ended by systemd and started again.
func TestWatchdog_stopped(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		b.hurryWatchdog()
		d := b.startDoor(1042)
		d.mustOpen()
		before := b.number(service, "MainPID")
		b.sh("systemctl kill --signal=STOP " + service)
		b.awaitActive(before)
		d.mustOpen()
		if n := b.number(service, "NRestarts"); n != 1 {
			t.Errorf("systemd has started it again %d times", n)
		}
		b.awaitLogged(service, "Watchdog timeout")
	})
}

// While its disk hangs, the gateway opens doors and feeds the watchdog.
func TestWatchdog_hangingDisk(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := newBoard(t, suite)
		disk := b.mountDisk("/var/lib/gatehouse", 64)
		b.switchOn()
		b.install(version)
		b.allowUnlocks()
		b.hurryWatchdog()
		d := b.startDoor(1042)
		d.mustOpen()
		before := b.number(service, "MainPID")
		b.must(command("fsfreeze", "--freeze", disk.folder))
		thawed := false
		thaw := func() {
			if !thawed {
				thawed = true
				b.must(command("fsfreeze", "--unfreeze", disk.folder))
			}
		}
		t.Cleanup(thaw) // before the board ends: frozen processes cannot
		d.mustOpen()    // its record waits for the disk
		d.openUntilFed()
		if now := b.number(service, "MainPID"); now != before {
			t.Errorf("process %d of the gateway has become %d", before, now)
		}
		thaw()
		d.mustOpen()
		b.awaitJournal(d)
	})
}

// The first to connect to a gateway that is stopped starts it, and is answered.
func TestSocketActivation(t *testing.T) {
	onEachDebian(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		d := b.newDoor(1042)
		d.client.CloseIdleConnections()
		b.sh("systemctl stop " + service)
		if state := b.property(service, "ActiveState"); state != "inactive" {
			t.Fatalf("the stopped service is %s", state)
		}
		got, err := d.ask(http.MethodGet, "/v1/stations/"+d.issued.StationToken, "")
		if err != nil || got.status != http.StatusOK || !strings.Contains(string(got.body), `"stationId":1042`) {
			t.Fatalf("the connection to a stopped gateway: %d %s %v", got.status, got.body, err)
		}
		b.awaitActive(0)
		d.start(b.trusting(b.authority()))
		d.mustOpen()
	})
}
