package backup_test

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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

// begin brings a gateway to the moment at which the restore of another one has begun.
func begin(t *testing.T, present, old gateway) {
	t.Helper()
	_, pieces := old.pieces(t)
	for _, p := range pieces {
		if strings.HasPrefix(p.Name, "data/") {
			present.write(t, "data/"+backup.ReadyPrefix+"20261121T190512Z/"+p.Name, string(p.Text))
		}
	}
}

// A power cut at any moment after a restore has begun leaves the restored gateway, whole,
// and the former one beside it: the next start completes it, however often that is cut
// short.
func TestComplete_powerCut(t *testing.T) {
	old := newGateway(t, "North")
	old.write(t, "data/gatehouse.db-wal", "")
	for n, more := 0, true; more; n++ {
		present := newGateway(t, "South")
		present.write(t, "data/gatehouse.db.copy", "of South")
		before := tree(t, present.data)
		begin(t, present, old)
		var err error
		more, err = backup.CutShort(present.data, n)
		must(t, err)
		_, err = backup.CutShort(present.data, 1)
		must(t, err)
		must(t, backup.Complete(present.data))
		if got := present.inventory(t).Gateway; got != old.id || slices.Contains(names(t, present.data), "token.key") || present.read(t, "data/tls/ca.key") != "North key of the CA" {
			t.Errorf("cut after %d moves: the gateway is %s, not the restored %s, with %v", n, got, old.id, names(t, present.data))
		}
		kept := tree(t, present.path("data/before-restore-20261121T190512Z"))
		for path, text := range before {
			in := present.path("data/before-restore-20261121T190512Z") + strings.TrimPrefix(path, present.data)
			if got, ok := kept[in]; !ok || got != text {
				t.Errorf("cut after %d moves: %s is not kept", n, path)
			}
		}
		if found := hidden(t, present.data); len(found) > 0 {
			t.Errorf("cut after %d moves: left behind: %v", n, found)
		}
	}
}

// What was not confirmed, because the medium was not authenticated to its end or its
// configuration is refused, is not restored.
func TestRestore_unconfirmed(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	before := tree(t, present.root())
	m, err := backup.Open(old.crafted(t))
	must(t, err)
	defer func() { must(t, m.Close()) }()
	var archive bytes.Buffer
	_, _, err = m.Pass(t.Context(), passphrase, &archive)
	must(t, err)
	for _, behind := range []string{"", "every byte was authenticated", "every byte was authenticated\n\n"} {
		if _, err := backup.Restore(t.Context(), present.order("a"), files, strings.NewReader(archive.String()+behind)); !fault.Is(err, fault.Invalid) {
			t.Errorf("followed by %q: %v", behind, err)
		}
	}
	same(t, before, tree(t, present.root()))
}

// A disk that fails after a restore has begun is reported as such.
func TestRestore_begun(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	present.write(t, "data/"+backup.ReadyPrefix+"x", "a file where a folder should be")
	path := old.crafted(t)
	_, _, err := present.try(t.Context(), path, present.order(path))
	if !errors.Is(err, backup.ErrBegun) || !strings.HasPrefix(fault.Sentence(err), "The restore has begun and could not be finished (") {
		t.Error(err)
	}
}

func TestComplete_nothingToDo(t *testing.T) {
	g := newGateway(t, "North")
	before := tree(t, g.data)
	g.write(t, "data/.backup-stale.db", "a snapshot of a gateway that was killed")
	g.write(t, "data/.restore-123/data/gatehouse.db", "unpacked by a restore that was killed")
	g.write(t, "data/.restore-marker", "{")
	must(t, backup.Complete(g.data))
	same(t, before, tree(t, g.data))
}

func TestComplete_broken(t *testing.T) {
	g := newGateway(t, "North")
	g.write(t, "data/"+backup.ReadyPrefix+"x", "a file where a folder should be")
	if err := backup.Complete(g.data); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), g.data) {
		t.Error(err)
	}
}

// draft returns the configuration in a backup.
func draft(t *testing.T, path string) backup.Draft {
	t.Helper()
	m, err := backup.Open(path)
	must(t, err)
	defer func() { must(t, m.Close()) }()
	_, d, err := m.Pass(t.Context(), passphrase, io.Discard)
	must(t, err)
	return d
}

// What keeps a configuration from being written is seen before anything is replaced.
func TestConfiguration_Prepare_refuses(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	old.write(t, "gatehouse/conf.d/50-site.toml", "# of North\n")
	present.write(t, "gatehouse/conf.d", "a file where a folder should be")
	before := tree(t, present.root())
	_, err := present.config.Prepare(draft(t, old.crafted(t)), nil, os.Getgid(), "stamp")
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.Sentence(err), "--no-config") {
		t.Error(err)
	}
	same(t, before, tree(t, present.root()))
}

// A configuration that cannot be written to its end is reported, and restoring again
// writes the rest.
func TestPlacement_Write_again(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	old.write(t, "gatehouse/conf.d/50-site.toml", "# of North\n")
	path := old.crafted(t)
	p := present.prepare(t, draft(t, path))
	present.write(t, "gatehouse/conf.d", "a file where a folder should be")
	if err := p.Write(); !errors.Is(err, backup.ErrBegun) || !strings.Contains(fault.Sentence(err), "conf.d/50-site.toml cannot be written") {
		t.Error(err)
	}
	must(t, os.Remove(present.path("gatehouse/conf.d")))
	done := present.restore(t, path)
	if present.read(t, "gatehouse/gatehouse.toml") != "# of North\n" || present.read(t, "gatehouse/conf.d/50-site.toml") != "# of North\n" || len(done.Written) != 1 {
		t.Errorf("then: %+v", done.Placement)
	}
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
		"first-boot.state", "gatehouse-site.toml", "gatehouse-result.txt", ".50-site.before", "bin/run.sh",
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
	all := draft(t, craft(t, m, pieces...))
	p := present.prepare(t, all)
	slices.Sort(left)
	if got := slices.Sorted(slices.Values(p.LeftOut)); !slices.Equal(got, left) {
		t.Errorf("left out: %q, want %q", got, left)
	}
	must(t, p.Write())
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
	p = shared.prepare(t, all)
	if !slices.Contains(p.LeftOut, "ssl/cert.pem") {
		t.Errorf("left out: %q", p.LeftOut)
	}
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
	path := old.crafted(t)
	blank.restoreData(t, path, blank.order(path))
	db := blank.open(t)
	defer func() { must(t, db.Close()) }()
	last, err := db.Recent(t.Context(), 1, 1, 0)
	if err != nil || len(last) != 1 || last[0].Seq != 4 || last[0].Count != 1 ||
		last[0].Detail != "from the backup of 2026-11-21T19:05:12.000Z, made by version 1.2.3; sessions were ended" {
		t.Errorf("the journal says %+v, %v", last, err)
	}
}
