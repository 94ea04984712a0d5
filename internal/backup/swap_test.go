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
	"syscall"
	"testing"

	"gatehouse/internal/backup"
	"gatehouse/internal/fault"
)

func tamper(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.ExecContext(t.Context(), statement)
	must(t, errors.Join(err, db.Close()))
}

var errPower = errors.New("the power fails")

// breakAt gives a function that fails at the n-th step and at every later one, as if the
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

// identity says which gateway stands in a data directory, all of it: its database, its
// key, its certificates and its configuration.
func identity(t *testing.T, g gateway) map[string]string {
	t.Helper()
	return map[string]string{
		"database": string(g.inventory(t).Gateway), "key": g.read(t, "data/token.key"), "ca": g.read(t, "data/tls/ca.key"),
		"config": g.read(t, "etc/gatehouse.toml"),
	}
}

// A power cut at any moment leaves the old gateway or the new one, whole: what the next
// start completes, also if that is interrupted at any moment.
func TestCommit_powerCut(t *testing.T) {
	old := newGateway(t, "North")
	old.write(t, "etc/conf.d/50-site.toml", "# of North\n")
	path := old.crafted(t)
	wantNew := identity(t, old)
	sawOld, sawNew := 0, 0
	for n := 1; ; n++ {
		present := newGateway(t, "South")
		present.write(t, "etc/conf.d/60-more.toml", "# of South alone\n")
		wantOld := identity(t, present)
		before := tree(t, present.root())
		staged, err := present.stage(t.Context(), path)
		must(t, err)
		var steps []string
		_, err = staged.CommitBreaking(t.Context(), present.terms(), breakAt(n, &steps))
		if len(steps) < n {
			must(t, err)
			break // there are no more steps
		}
		if err == nil {
			t.Fatalf("step %d (%s) failed, and nobody noticed", n, steps[n-1])
		}
		begun := errors.Is(err, backup.ErrBegun)
		// The process may live to tidy up, or not.
		if n%2 == 0 {
			must(t, staged.Discard())
		}
		name := fmt.Sprintf("broken at step %d, %s", n, steps[n-1])
		for again := 1; ; again++ {
			var more []string
			pending, err := backup.CompleteBreaking(present.data, breakAt(again, &more))
			if len(more) < again {
				if err != nil || len(pending) > 0 {
					t.Fatalf("%s: completing: %v, %v", name, pending, err)
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
		if found := hidden(t, present.data); len(found) > 0 {
			t.Errorf("%s: left behind: %v", name, found)
		}
		if begun {
			checkReplaced(t, name, present, before)
		} else if _, err := os.Stat(present.path("etc/conf.d/60-more.toml")); err != nil {
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
	if found := names(t, g.path("etc/conf.d")); !slices.Equal(found, want) {
		t.Errorf("%s: conf.d has %v", name, found)
	}
	if text := g.read(t, "etc/gatehouse.toml.before-restore-20261121T190512Z"); text != "# of South\n" {
		t.Errorf("%s: the configuration that is kept: %q", name, text)
	}
}

// The gateway completes what root had begun; the configuration it may not touch, so it
// says where that waits.
func TestComplete_withoutRights(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	staged, err := present.stage(t.Context(), old.crafted(t))
	must(t, err)
	_, err = staged.CommitBreaking(t.Context(), present.terms(), func(step string) error {
		if step == "keep token.key" {
			return errPower
		}
		return nil
	})
	if !errors.Is(err, backup.ErrBegun) || !strings.HasPrefix(fault.Sentence(err), "The restore has begun and could not be finished (the power fails)") {
		t.Fatal(err)
	}
	pending, err := backup.CompleteBreaking(present.data, func(step string) error {
		if strings.HasSuffix(step, "configuration") {
			return &os.PathError{Op: "link", Err: syscall.EROFS}
		}
		return nil
	})
	must(t, err)
	if !slices.Equal(pending, []string{present.config.Main}) {
		t.Errorf("pending: %v", pending)
	}
	if present.inventory(t).Gateway != old.id || present.read(t, "etc/gatehouse.toml") != "# of South\n" || present.read(t, "etc/gatehouse.toml.restored") != "# of North\n" {
		t.Error("not the restored data with the former configuration")
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
	for name, marker := range map[string]string{
		"no JSON":             `{"phase":`,
		"a folder of another": `{"phase":"out","staged":"../elsewhere","kept":"before-restore-x"}`,
		"no folder":           `{"phase":"out","staged":".restore-1","kept":"/tmp"}`,
		"one that is gone":    `{"phase":"out","staged":".restore-1","kept":"before-restore-x","whole":true}`,
	} {
		g := newGateway(t, "North")
		g.write(t, "data/"+backup.MarkerName, marker)
		if err := backup.Complete(g.data, quiet); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), g.data) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A failure before anything is replaced leaves no trace.
func TestCommit_failsBefore(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	old.write(t, "etc/conf.d/50-site.toml", "# of North\n")
	present.write(t, "etc/conf.d", "a file where a folder should be")
	before := tree(t, present.root())
	staged, err := present.stage(t.Context(), old.crafted(t))
	must(t, err)
	_, err = staged.Commit(t.Context(), present.terms())
	if err == nil || errors.Is(err, backup.ErrBegun) || !strings.Contains(fault.Sentence(err), "--no-config") {
		t.Error(err)
	}
	must(t, staged.Discard())
	same(t, before, tree(t, present.root()))
}

func TestConfiguration_Load_unreadable(t *testing.T) {
	g := newGateway(t, "North")
	g.write(t, "etc/credentials/large", strings.Repeat("x", 2<<20))
	if _, err := g.config.Load(); !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.Sentence(err), "credentials/large has more than") {
		t.Errorf("a large file: %v", err)
	}
	g.config.Main = filepath.Join(t.TempDir(), "none.toml")
	if files, err := g.config.Load(); err != nil || len(files) != 0 {
		t.Errorf("no configuration: %v, %v", files, err)
	}
}

// Files that root restores become those of the owner of the data directory.
func TestCommit_owner(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root gives files away
	}
	old, present := newGateway(t, "North"), newGateway(t, "South")
	const nobody = 65534
	must(t, os.Chown(present.data, nobody, nobody))
	done := present.restore(t, old.crafted(t), present.terms())
	for _, name := range []string{"gatehouse.db", "gatehouse.db-wal", "token.key", "tls", "tls/ca.key", filepath.Base(done.Kept)} {
		info, err := os.Stat(filepath.Join(present.data, name))
		must(t, err)
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != nobody || stat.Gid != nobody {
			t.Errorf("%s belongs to %d:%d", name, stat.Uid, stat.Gid)
		}
	}
	info, err := os.Stat(present.config.Main)
	must(t, err)
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != 0 {
		t.Errorf("the configuration belongs to %d", stat.Uid)
	}
}

// The record of a restore ends the chain of the backup.
func TestCommit_journal(t *testing.T) {
	old := newGateway(t, "North")
	blank := gateway{data: t.TempDir()}
	blank.restore(t, old.crafted(t), backup.Terms{By: "uid 0 (root)", Now: clock{}.Now()})
	db := blank.open(t)
	defer func() { must(t, db.Close()) }()
	last, err := db.Recent(t.Context(), 1, 1, 0)
	if err != nil || len(last) != 1 || last[0].Seq != 4 || last[0].Count != 1 ||
		last[0].Detail != "from the backup of 2026-11-21T19:05:12.000Z, made by version 1.2.3; sessions were ended" {
		t.Errorf("the journal says %+v, %v", last, err)
	}
}
