package attacktest_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// What stations report was written to the card every minute, in pages: hundreds of
// megabytes a day. Saving it seldom must not cost a change of a lock: after a kill the
// lock is as its station said last.
func TestAttack_lockAfterKill(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	station := p.Dial(issued.MQTT)
	for _, status := range []string{"locked", "unlocked", "jammed"} {
		station.Publish("report", []byte(`{"batteryVoltage":3.71,"locks":[{"lockId":"lock-1","status":"`+status+`"}]}`))
		p.AwaitRecord("the change to "+status, func(r site.Record) bool {
			return r.Kind == site.KindLockChanged && string(r.Status) == status
		})
	}
	p.Kill()
	p.Start()
	p.AwaitReady()
	answer := p.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil)
	if answer.Status != http.StatusOK || !strings.Contains(string(answer.Body), `"jammed"`) {
		t.Errorf("after the kill: %d %s", answer.Status, answer.Body)
	}
}

// frames returns how many pages the present log of SQLite beside a database holds, and
// how many transactions they belong to.
func frames(t *testing.T, database string) (pages, transactions int) {
	t.Helper()
	const header, frameHeader, page = 32, 24, 4096
	log, err := os.ReadFile(database + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if len(log) < header {
		return 0, 0
	}
	for at := header; at+frameHeader+page <= len(log); at += frameHeader + page {
		if !bytes.Equal(log[at+8:at+16], log[16:24]) {
			break // of an earlier log
		}
		pages++
		if binary.BigEndian.Uint32(log[at+4:]) != 0 {
			transactions++
		}
	}
	return pages, transactions
}

// Reports wrote hundreds of megabytes a day to the card, and each unlock two transactions
// of up to eight pages, those of the log's index included. A report writes nothing now,
// and each transaction of a lone unlock one page, beside those that begin a new one.
func TestAttack_cardWear(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	station := p.Dial(issued.MQTT)
	station.Publish("report", []byte(`{"batteryVoltage":3.99,"locks":[{"lockId":"lock-1","status":"locked"}]}`))
	p.AwaitRecord("the state of the lock", func(r site.Record) bool { return r.Kind == site.KindLockChanged })
	database := filepath.Join(p.Data, "gatehouse.db")
	pages, transactions := frames(t, database)

	const reports = 100
	for i := range reports {
		station.Publish("report", fmt.Appendf(nil, `{"batteryVoltage":%.2f,"locks":[{"lockId":"lock-1","status":"locked"}]}`, 3.98-float64(i)/1000))
	}
	p.Await("the last report is there", func() bool {
		return strings.Contains(string(p.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil).Body), "3.88")
	})
	if n, _ := frames(t, database); n != pages {
		t.Errorf("%d reports wrote %d pages", reports, n-pages)
	}

	go func() {
		for {
			c, err := station.NextCommand()
			if err != nil || station.TryAck(c) != nil {
				return
			}
		}
	}()
	const unlocks = 16
	for i := range unlocks {
		if !p.Unlock(access, issued.StationToken) {
			t.Fatal("an unlock failed")
		}
		p.Await("its outcome is durable", func() bool {
			_, n := frames(t, database)
			return n >= transactions+2*(i+1)
		})
	}
	after, done := frames(t, database)
	if most := 2*unlocks + 18; after-pages > most || done-transactions != 2*unlocks {
		t.Errorf("%d unlocks wrote %d pages in %d transactions, want at most %d", unlocks, after-pages, done-transactions, most)
	}
	t.Logf("%d unlocks wrote %d pages", unlocks, after-pages)
	if index, err := os.Stat(database + "-shm"); err == nil && index.Size() > 0 {
		t.Errorf("the index of the log has %d bytes on the disk", index.Size())
	}
	checkInUse(t, p, database)
}

// checkInUse checks that the tools ask the gateway for the database, which nobody else
// can open.
func checkInUse(t *testing.T, p *gatewaytest.Program, database string) {
	t.Helper()
	if out, status := p.Run("journal", "verify", database); status != 1 || !strings.Contains(out, "is in use by another process") {
		t.Errorf("verifying the file of a running gateway: %d %s", status, out)
	}
	if out, status := p.Run("journal", "verify"); status != 0 {
		t.Errorf("verifying: %d %s", status, out)
	}
	if out, _ := p.Run("doctor"); !strings.Contains(out, "It is sound") {
		t.Errorf("doctor does not know the database: %s", out)
	}
}
