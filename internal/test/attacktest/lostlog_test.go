package attacktest_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/health"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

const (
	logHeader = 32                  // bytes of SQLite's log before its first frame
	logFrame  = 24 + damagePage     // bytes of a frame
	goneEmail = "gone@example.test" // the account that is removed before the kill
)

// What was possible: SQLite ignores its log from the first damaged frame on, and one that is
// missing. After a SIGKILL and one flipped bit, revoked sessions and removed accounts were back,
// records were missing, and the next ones had their numbers; nothing reported it. The same with
// garbage at the head of the log, and where the head of the database was lost with the log: the
// copy, which proved the loss, was then overwritten. What was revoked stays revoked, the loss is
// reported and recorded, and no number is used twice. A log that is whole, or ends in a
// transaction that was never committed, is no damage.
func TestAttack_lostLog(t *testing.T) {
	without := func(suffixes ...string) func(t *testing.T, log string, _ int64) {
		return func(t *testing.T, log string, _ int64) {
			for _, suffix := range suffixes {
				check(t, ignoreMissing(os.Remove(strings.TrimSuffix(log, "-wal")+suffix)))
			}
		}
	}
	garbage := func(t *testing.T, path string) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0) //nolint:gosec // the test's own
		check(t, err)
		_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, logHeader), 0)
		check(t, errors.Join(err, f.Close()))
	}
	damages := map[string]func(t *testing.T, log string, frames int64){
		"first frame":           func(t *testing.T, log string, _ int64) { flip(t, log, logHeader+124) },
		"middle frame":          func(t *testing.T, log string, frames int64) { flip(t, log, logHeader+frames/2*logFrame+124) },
		"last frame":            func(t *testing.T, log string, frames int64) { flip(t, log, logHeader+(frames-1)*logFrame+124) },
		"header":                func(t *testing.T, log string, _ int64) { flip(t, log, 17) },
		"empty":                 func(t *testing.T, log string, _ int64) { check(t, os.Truncate(log, 0)) },
		"header garbage":        func(t *testing.T, log string, _ int64) { garbage(t, log) },
		"removed":               without("-wal", "-shm"),
		"removed with the head": without("-wal", "-shm", ".head"),
		"database removed":      without(""),
		"only the copy left":    without("", "-wal", "-shm", ".head"),
		"header and head garbage": func(t *testing.T, log string, _ int64) {
			garbage(t, log)
			garbage(t, strings.TrimSuffix(log, "-wal")+".head")
		},
	}
	honest := map[string]func(t *testing.T, log string, frames int64){
		"whole": func(*testing.T, string, int64) {},
		"torn": func(t *testing.T, log string, frames int64) {
			text, err := os.ReadFile(log) //nolint:gosec // the test's own
			check(t, err)
			text = append(text[:logHeader+frames*logFrame], text[logHeader:logHeader+logFrame/2]...)
			check(t, os.WriteFile(log, text, 0o600))
		},
	}
	for name, house := range map[string]struct{ fresh, elsewhere bool }{
		"used": {}, "fresh": {fresh: true}, "copy elsewhere": {elsewhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newKilledHouse(t, house.fresh, house.elsewhere)
			for name, damage := range damages {
				t.Run(name, func(t *testing.T) { h.opens(t, damage, true) })
			}
			for name, leave := range honest {
				t.Run(name, func(t *testing.T) { h.opens(t, leave, false) })
			}
		})
	}
}

// killedHouse is the data of a gateway that was killed soon after revocations, which the copy has, and
// unlocks, which only the log has.
type killedHouse struct {
	data, copies    string // copies: where the copy is if that is elsewhere
	station         adminapi.IssuedStation
	access, refresh string
	revoked         string // the refresh token of a session that was ended
	records         []site.Record
}

func newKilledHouse(t *testing.T, fresh, elsewhere bool) *killedHouse {
	t.Helper()
	h := &killedHouse{data: filepath.Join(t.TempDir(), "data")}
	copied := filepath.Join(h.data, "gatehouse.db.copy")
	if elsewhere {
		h.copies = t.TempDir()
		copied = filepath.Join(h.copies, "gatehouse.db.copy")
	}
	p := gatewaytest.Exec(t, h.launch(h.data, h.copies))
	p.AddAccount()
	_, err := p.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: goneEmail, Password: gatewaytest.Password})
	check(t, err)
	h.station = p.Enrol(1042)
	h.access, h.refresh = p.Login()
	_, h.revoked = p.Login()
	if !fresh {
		check(t, p.Stop())
		p.Start()
		p.AwaitReady()
	}
	if a := p.Do(http.MethodPost, "/v1/auth/revoke", "", tokenBody(t, h.revoked)); a.Status != http.StatusOK {
		t.Fatalf("revoking: %d %s", a.Status, a.Body)
	}
	check(t, p.Admin.RemoveAccount(t.Context(), goneEmail))
	p.Await("the copy has the revocations", func() bool {
		inv, err := sqlite.Files{}.Inspect(t.Context(), copied, "The copy")
		return err == nil && inv.Accounts == 1 && inv.Sessions == 1
	})
	answering(p, h.station.MQTT)
	p.AwaitOnline(1042, true)
	for range 3 {
		if !p.Unlock(h.access, h.station.StationToken) {
			t.Fatal("the door does not open")
		}
	}
	h.records = p.Records()
	last := h.records[len(h.records)-1].Seq
	p.Await("the head names the newest record", func() bool {
		head, err := os.ReadFile(filepath.Join(h.data, "gatehouse.db.head"))
		return err == nil && len(head) >= 8 && binary.BigEndian.Uint64(head) >= last
	})
	p.Kill()
	check(t, os.Remove(filepath.Join(h.data, "admin.sock"))) // it cannot be copied
	return h
}

func (*killedHouse) launch(data, copies string) gatewaytest.Launch {
	l := gatewaytest.Launch{Data: data}
	if copies != "" {
		l.Env = []string{"GATEHOUSE_DATA_COPY=" + copies}
	}
	return l
}

// framesOf counts the frames of a log that belong to it: they have its salts. Behind them may be
// some of an earlier one.
func framesOf(t *testing.T, log string) (n int64) {
	t.Helper()
	text, err := os.ReadFile(log) //nolint:gosec // the test's own
	check(t, err)
	salts := text[16:24]
	for frame := range slices.Chunk(text[logHeader:], logFrame) {
		if len(frame) < logFrame || !bytes.Equal(frame[8:16], salts) {
			break
		}
		n++
	}
	return n
}

// opens damages the log of a copy of the house, or leaves it whole, and starts it.
func (h *killedHouse) opens(t *testing.T, damage func(t *testing.T, log string, frames int64), lost bool) {
	data, copies := copyOf(t, h.data), ""
	if h.copies != "" {
		copies = copyOf(t, h.copies)
	}
	log := filepath.Join(data, "gatehouse.db-wal")
	damage(t, log, framesOf(t, log))
	p := gatewaytest.Exec(t, h.launch(data, copies))
	if a := p.Do(http.MethodPost, "/v1/auth/refresh", "", tokenBody(t, h.revoked)); a.Status != http.StatusUnauthorized {
		t.Errorf("a revoked session refreshes: %d", a.Status)
	}
	if a := p.Do(http.MethodPost, "/v1/auth/refresh", "", tokenBody(t, h.refresh)); a.Status != http.StatusOK {
		t.Errorf("refreshing: %d %s", a.Status, a.Body)
	}
	if accounts, err := p.Admin.Accounts(t.Context()); err != nil || len(accounts) != 1 {
		t.Errorf("accounts %v, %v", accounts, err)
	}
	answering(p, h.station.MQTT)
	p.AwaitOnline(1042, true)
	if !p.Unlock(h.access, h.station.StationToken) {
		t.Error("the door does not open")
	}
	if v, err := p.Admin.VerifyJournal(t.Context()); err != nil || v.Broken != 0 {
		t.Errorf("verdict %+v, %v", v, err)
	}
	if raised(p, health.StorageDamaged) != lost {
		t.Errorf("the finding of damage is raised: %v", !lost)
	}
	records, last := p.Records(), h.records[len(h.records)-1].Seq
	if slices.ContainsFunc(records, func(r site.Record) bool { return r.Kind == site.KindRecordsLost }) != lost {
		t.Errorf("lost records are recorded: %v", !lost)
	}
	aside, _ := filepath.Glob(filepath.Join(data, "gatehouse.db.damaged-*Z"))
	if (len(aside) > 0) != lost {
		t.Errorf("set aside: %v", aside)
	}
	for _, r := range records {
		i := slices.IndexFunc(h.records, func(old site.Record) bool { return old.Seq == r.Seq })
		if i >= 0 && (h.records[i].Kind != r.Kind || h.records[i].Time != r.Time) {
			t.Errorf("record %d was %s and is %s", r.Seq, h.records[i].Kind, r.Kind)
		}
		if i < 0 && r.Seq <= last {
			t.Errorf("record %d was not there", r.Seq)
		}
	}
	if !lost && !slices.ContainsFunc(records, func(r site.Record) bool { return r.Seq == last }) {
		t.Errorf("record %d is missing", last)
	}
}
