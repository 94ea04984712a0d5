package backup_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
)

func tamper(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.ExecContext(t.Context(), statement)
	must(t, errors.Join(err, db.Close()))
}

var errPower = errors.New("the power fails")

// breakAt returns a function that fails at the n-th step and at every later one, as if the
// power had failed there, and counts the steps.
func breakAt(n int, steps *[]string) func(string) error {
	return func(step string) error {
		*steps = append(*steps, step)
		if n > 0 && len(*steps) >= n {
			return errPower
		}
		return nil
	}
}

// identity returns which gateway is in a data directory, all of it: its database, its
// key, its certificates and its configuration.
func identity(t *testing.T, g gateway) map[string]string {
	t.Helper()
	return map[string]string{
		"database": string(g.inventory(t).Gateway), "key": g.read(t, "data/token.key"), "ca": g.read(t, "data/tls/ca.key"),
		"config": g.read(t, "gatehouse/gatehouse.toml"),
	}
}

// A power cut at any moment leaves the old gateway or the new one, whole: what the next
// start completes, also if that is interrupted at any moment.
func TestCommit_powerCut(t *testing.T) {
	old := newGateway(t, "North")
	old.write(t, "gatehouse/conf.d/50-site.toml", "# of North\n")
	path := old.crafted(t)
	wantNew := identity(t, old)
	sawOld, sawNew := 0, 0
	for n := 1; ; n++ {
		present := newGateway(t, "South")
		present.write(t, "gatehouse/conf.d/60-more.toml", "# of South alone\n")
		wantOld := identity(t, present)
		before := tree(t, present.root())
		staged, err := present.stage(t.Context(), path)
		must(t, err)
		var steps []string
		placement := present.prepare(t, staged)
		placement.BreakBefore(breakAt(n, &steps))
		_, err = placement.Carry(t.Context(), backup.Breaking{Staged: staged.Staged, Before: breakAt(n, &steps)}, present.terms())
		if len(steps) < n {
			must(t, err)
			break // there are no more steps
		}
		if err == nil {
			t.Fatalf("step %d (%s) failed, and nobody noticed", n, steps[n-1])
		}
		begun := errors.Is(err, backup.ErrBegun)
		// The process may live to tidy up, or not.
		if n%2 == 0 && !begun {
			placement.BreakBefore(nil)
			must(t, errors.Join(staged.Discard(), placement.Discard()))
		}
		name := fmt.Sprintf("broken at step %d, %s", n, steps[n-1])
		for again := 1; ; again++ {
			var more []string
			waits, err := backup.CompleteBreaking(present.data, &present.config, breakAt(again, &more))
			if len(more) < again {
				if err != nil || waits != "" {
					t.Fatalf("%s: completing: %q, %v", name, waits, err)
				}
				break
			}
			if !errors.Is(err, errPower) {
				t.Fatalf("%s, then at %s: %v", name, more[again-1], err)
			}
		}
		want := wantOld
		if begun {
			want = wantNew
			sawNew++
		} else {
			sawOld++
		}
		if got := identity(t, present); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		for _, folder := range []string{present.data, filepath.Dir(present.config.Main), present.path("gatehouse/conf.d")} {
			if found := hidden(t, folder); len(found) > 0 {
				t.Errorf("%s: left behind in %s: %v", name, folder, found)
			}
		}
		if begun {
			checkReplaced(t, name, present, before)
		} else if _, err := os.Stat(present.path("gatehouse/conf.d/60-more.toml")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if sawOld < 2 || sawNew < 10 {
		t.Errorf("the old gateway was there after %d steps, the new one after %d", sawOld, sawNew)
	}
}

// checkReplaced sees that what was there is kept, and nothing of it mixed in.
func checkReplaced(t *testing.T, name string, g gateway, before map[string]string) {
	t.Helper()
	kept := filepath.Join(g.data, "before-restore-20261121T190512Z")
	for _, file := range []string{"gatehouse.db", "token.key", "tls/ca.crt"} {
		if text, err := os.ReadFile(filepath.Join(kept, file)); err != nil || string(text) != before[filepath.Join(g.data, file)] {
			t.Errorf("%s: %s is not kept: %v", name, file, err)
		}
	}
	want := []string{"50-site.toml", "60-more.toml.before-restore-20261121T190512Z"}
	if found := names(t, g.path("gatehouse/conf.d")); !slices.Equal(found, want) {
		t.Errorf("%s: conf.d has %v", name, found)
	}
	if text := g.read(t, "gatehouse/gatehouse.toml.before-restore-20261121T190512Z"); text != "# of South\n" {
		t.Errorf("%s: the configuration that is kept: %q", name, text)
	}
}

// The gateway completes the data of what root had begun; the configuration waits for
// root, and the data is not forgotten meanwhile.
func TestComplete_waits(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	staged, err := present.stage(t.Context(), old.crafted(t))
	must(t, err)
	_, err = present.prepare(t, staged).Carry(t.Context(), backup.Breaking{Staged: staged.Staged, Before: func(step string) error {
		if step == "keep token.key" {
			return errPower
		}
		return nil
	}}, present.terms())
	if !errors.Is(err, backup.ErrBegun) || !strings.HasPrefix(fault.Sentence(err), "The restore has begun and could not be finished (the power fails)") {
		t.Fatal(err)
	}
	for range 2 {
		var log bytes.Buffer
		must(t, backup.Complete(present.data, slog.New(slog.NewTextHandler(&log, nil))))
		if !strings.Contains(log.String(), "run gatehouse restore --complete as root") {
			t.Errorf("the log says %q", log.String())
		}
	}
	if present.inventory(t).Gateway != old.id || present.read(t, "gatehouse/gatehouse.toml") != "# of South\n" {
		t.Error("not the restored data with the former configuration")
	}
	waits, err := backup.CompleteBreaking(present.data, &present.config, nil)
	if err != nil || waits != "" || present.read(t, "gatehouse/gatehouse.toml") != "# of North\n" {
		t.Errorf("then: %q, %v", waits, err)
	}
}

// A restore takes the place of one whose configuration still waits.
func TestCommit_overWaiting(t *testing.T) {
	first, second, present := newGateway(t, "North"), newGateway(t, "West"), newGateway(t, "South")
	staged, err := present.stage(t.Context(), first.crafted(t))
	must(t, err)
	_, err = present.prepare(t, staged).Carry(t.Context(), backup.Breaking{Staged: staged.Staged, Before: func(step string) error {
		if step == "forget" {
			return errPower
		}
		return nil
	}}, present.terms())
	if !errors.Is(err, backup.ErrBegun) {
		t.Fatal(err)
	}
	must(t, backup.Complete(present.data, quiet)) // as a start does
	terms := present.terms()
	terms.Now = terms.Now.Add(time.Hour)
	present.restoreData(t, second.crafted(t), terms)
	if got := present.inventory(t).Gateway; got != second.id {
		t.Errorf("the gateway is %s, not the restored %s", got, second.id)
	}
	if waits, err := backup.Waiting(present.data); waits != "" || err != nil {
		t.Errorf("waits: %q, %v", waits, err)
	}
}

// An error after which the restore may have begun is reported as one.
func TestCommit_mayHaveBegun(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	staged, err := present.stage(t.Context(), old.crafted(t))
	must(t, err)
	_, err = backup.Breaking{Staged: staged.Staged, Before: func(step string) error {
		if step != "begin" {
			return nil
		}
		// The folder has its new name, and cannot be synchronised.
		found := hidden(t, present.data)
		must(t, os.Rename(filepath.Join(present.data, found[0]), filepath.Join(present.data, backup.ReadyPrefix+backup.Stamp(present.terms().Now))))
		return errPower
	}}.Commit(t.Context(), present.terms())
	if !errors.Is(err, backup.ErrBegun) {
		t.Error(err)
	}
	must(t, backup.Complete(present.data, quiet))
	if got := present.inventory(t).Gateway; got != old.id {
		t.Errorf("the gateway is %s, not the restored %s", got, old.id)
	}
}

func TestComplete_nothingToDo(t *testing.T) {
	g := newGateway(t, "North")
	before := tree(t, g.data)
	g.write(t, "data/.backup-stale.db", "a snapshot of a gateway that was killed")
	g.write(t, "data/.restore-123/data/gatehouse.db", "unpacked by a restore that was killed")
	g.write(t, "data/.restore-marker", "{")
	var log bytes.Buffer
	must(t, backup.Complete(g.data, slog.New(slog.NewTextHandler(&log, nil))))
	same(t, before, tree(t, g.data))
	if log.Len() > 0 {
		t.Error(log.String())
	}
}

func TestComplete_broken(t *testing.T) {
	g := newGateway(t, "North")
	g.write(t, "data/"+backup.ReadyPrefix+"x", "a file where a folder should be")
	if err := backup.Complete(g.data, quiet); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), g.data) {
		t.Error(err)
	}
}

// A failure before anything is replaced leaves no trace.
func TestPlacement_Carry_failsBefore(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	old.write(t, "gatehouse/conf.d/50-site.toml", "# of North\n")
	present.write(t, "gatehouse/conf.d", "a file where a folder should be")
	before := tree(t, present.root())
	staged, err := present.stage(t.Context(), old.crafted(t))
	must(t, err)
	p := present.prepare(t, staged)
	if _, err = p.Carry(t.Context(), staged, present.terms()); err == nil || errors.Is(err, backup.ErrBegun) || !strings.Contains(fault.Sentence(err), "--no-config") {
		t.Error(err)
	}
	must(t, errors.Join(p.Discard(), staged.Discard()))
	same(t, before, tree(t, present.root()))
}

// A backup chooses neither the names nor the modes of what is restored beside the
// configuration.
func TestConfiguration_Prepare_names(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	m, pieces := old.pieces(t)
	add := func(name string, mode uint32) {
		e := backup.EntryOf("config/"+name, []byte("text of "+name))
		e.Mode = mode
		m.Files, pieces = append(m.Files, e), append(pieces, backup.Piece{Name: e.Name, Text: []byte("text of " + name)})
	}
	taken := map[string]os.FileMode{
		"conf.d/60-x.toml": 0o644, "conf.d/61-y.toml": 0o640, "credentials/key": 0o600, "ssl/cert.pem": 0o644, "key.pem": 0o640,
	}
	for name := range taken {
		add(name, map[string]uint32{"conf.d/60-x.toml": 0o777, "ssl/cert.pem": 0o4777}[name])
	}
	left := []string{
		"first-boot.state", "gatehouse-site.toml", "gatehouse-result.txt", "restore.json", ".50-site.before", "bin/run.sh",
		"conf.d/run.sh", "conf.d/.hidden.toml", "conf.d/sub/x.toml", "credentials/.hidden", "ssl/.hidden", "cron.d/named", "named.sh",
	}
	for _, name := range left {
		add(name, 0o777)
	}
	for name := range taken {
		present.config.More = append(present.config.More, present.path("gatehouse/"+name))
	}
	for _, name := range left {
		if name != "bin/run.sh" && name != "cron.d/named" && name != "named.sh" {
			present.config.More = append(present.config.More, present.path("gatehouse/"+name))
		}
	}
	staged, err := present.stage(t.Context(), craft(t, m, pieces...))
	must(t, err)
	p := present.prepare(t, staged)
	slices.Sort(left)
	if got := slices.Sorted(slices.Values(p.LeftOut)); !slices.Equal(got, left) {
		t.Errorf("left out: %q, want %q", got, left)
	}
	_, err = p.Carry(t.Context(), staged, present.terms())
	must(t, err)
	for name, mode := range taken {
		if info, err := os.Stat(present.path("gatehouse/" + name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, name := range left {
		if _, err := os.Lstat(present.path("gatehouse/" + name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}

	// In a folder that is not gatehouse's alone, nothing but its own names.
	shared := present
	shared.config.Main = present.path("etc/gatehouse.toml")
	shared.config.More = []string{present.path("etc/ssl/cert.pem")}
	must(t, os.Mkdir(present.path("etc"), 0o700))
	again, err := shared.stage(t.Context(), craft(t, m, pieces...))
	must(t, err)
	p = shared.prepare(t, again)
	if !slices.Contains(p.LeftOut, "ssl/cert.pem") {
		t.Errorf("left out: %q", p.LeftOut)
	}
	must(t, errors.Join(p.Discard(), again.Discard()))
}

func TestConfiguration_Load_unreadable(t *testing.T) {
	g := newGateway(t, "North")
	g.write(t, "gatehouse/credentials/large", strings.Repeat("x", 2<<20))
	if _, err := g.config.Load(); !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.Sentence(err), "credentials/large has more than") {
		t.Errorf("a large file: %v", err)
	}
	g.config.Main = filepath.Join(t.TempDir(), "none.toml")
	if files, err := g.config.Load(); err != nil || len(files) != 0 {
		t.Errorf("no configuration: %v, %v", files, err)
	}
}

// The record of a restore ends the chain of the backup.
func TestCommit_journal(t *testing.T) {
	old := newGateway(t, "North")
	blank := gateway{data: t.TempDir()}
	blank.restoreData(t, old.crafted(t), backup.Terms{By: "uid 0 (root)", Now: clock{}.Now()})
	db := blank.open(t)
	defer func() { must(t, db.Close()) }()
	last, err := db.Recent(t.Context(), 1, 1, 0)
	if err != nil || len(last) != 1 || last[0].Seq != 4 || last[0].Count != 1 ||
		last[0].Detail != "from the backup of 2026-11-21T19:05:12.000Z, made by version 1.2.3; sessions were ended" {
		t.Errorf("the journal says %+v, %v", last, err)
	}
}
