package attacktest_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

const (
	damagePage  = 4096      // bytes of a page of the database
	damageEvery = 64        // pages
	damageCut   = 256 << 10 // bytes
)

// What was possible: one damaged page in the newest records, or in any small table, and
// the gateway did not start; nobody could open a door. One bit is flipped in every 64th
// page, and in each of the first pages (in the long form in every page), one at a time: it
// starts each time, and who could open before can open.
func TestAttack_damage_flippedBit(t *testing.T) {
	h := newHouse(t)
	size := h.size(t)
	for page := range size / damagePage {
		if first := int64(6); page%damageEvery != 0 && page >= first && page != size/damagePage-1 && !gatewaytest.Torture() {
			continue
		}
		t.Run(fmt.Sprint("page ", page+1), func(t *testing.T) {
			t.Parallel()
			h.opens(t, func(path string) {
				flip(t, path, page*damagePage+page*2654435761%damagePage)
				flip(t, path, page*damagePage+page%4) // in what says what kind of page it is
			})
		})
	}
}

// What was possible: the same, with a database whose end is gone.
func TestAttack_damage_truncated(t *testing.T) {
	h := newHouse(t)
	for size := int64(0); size < h.size(t); size += damageCut {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			t.Parallel()
			h.opens(t, func(path string) {
				if err := os.Truncate(path, size); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// Who was removed before the damage does not come back with the copy.
func TestAttack_damage_revoked(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: data})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, refresh := p.Login()
	if err := p.Stop(); err != nil { // the copy has the account now
		t.Fatal(err)
	}
	p.Start()
	p.AwaitReady()
	if err := p.Admin.RemoveAccount(t.Context(), gatewaytest.Email); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(data, "gatehouse.db"), 0); err != nil {
		t.Fatal(err)
	}
	removeLog(t, data)
	p.Start()
	p.AwaitReady()
	if a := p.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil); a.Status != http.StatusUnauthorized {
		t.Errorf("a removed account reads: %d", a.Status)
	}
	if a := p.Do(http.MethodPost, "/v1/auth/refresh", "", tokenBody(t, refresh)); a.Status != http.StatusUnauthorized {
		t.Errorf("a removed account refreshes: %d", a.Status)
	}
	if stations, err := p.Admin.Stations(t.Context()); err != nil || len(stations) != 1 {
		t.Errorf("stations %v, %v", stations, err)
	}
}

// house is the data of a gateway that was in use, to be damaged in many ways.
type house struct {
	data            string
	station         adminapi.IssuedStation
	access, refresh string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{data: filepath.Join(t.TempDir(), "data")}
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: h.data})
	p.AddAccount()
	h.station = p.Enrol(1042)
	h.access, h.refresh = p.Login()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	records := 4000
	if gatewaytest.Torture() {
		records = 60_000
	}
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: h.database(h.data), Boot: "filler", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	db.UseClock(systemClock{})
	for i := range records {
		db.AppendLater(site.Record{Kind: site.KindUnlock, Facts: site.Facts{
			Origin: site.Local, Station: 1042, Lock: "lock-1", Outcome: site.Done, Detail: strings.Repeat("x", 200), Count: i,
		}})
		if i%1000 == 999 {
			if err := db.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// So that the database stands whole in its file, and the copy is as new.
	p.Start()
	p.AwaitReady()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	return h
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) Trusted() bool  { return true }

func (*house) database(data string) string { return filepath.Join(data, "gatehouse.db") }

func (h *house) size(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(h.database(h.data))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// opens damages the database of a house like this one: its gateway starts all the same,
// and who could open a door before can.
func (h *house) opens(t *testing.T, damage func(path string)) {
	t.Helper()
	data := copyOf(t, h.data)
	removeLog(t, data) // all is in the file itself
	damage(h.database(data))
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: data})
	answering(p, h.station.MQTT)
	p.AwaitOnline(1042, true)
	if !p.Unlock(h.access, h.station.StationToken) {
		t.Error("the door does not open")
	}
	if a := p.Do(http.MethodPost, "/v1/auth/refresh", "", tokenBody(t, h.refresh)); a.Status != http.StatusOK {
		t.Errorf("refreshing: %d %s", a.Status, a.Body)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// removeLog removes what SQLite keeps beside a database that was closed in order.
func removeLog(t *testing.T, data string) {
	t.Helper()
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.RemoveAll(filepath.Join(data, "gatehouse.db"+suffix)); err != nil {
			t.Fatal(err)
		}
	}
}

// flip turns one bit of a file over.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << (at % 8)
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

func tokenBody(t *testing.T, refresh string) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]string{"refreshToken": refresh})
	if err != nil {
		t.Fatal(err)
	}
	return body
}
