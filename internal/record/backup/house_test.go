package backup_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/record/backup"
	"gatehouse/internal/record/slate"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

func TestMain(m *testing.M) { os.Exit(await.Run(m)) }

const passphrase = site.Secret("four words nobody knows")

var quiet = slog.New(slog.DiscardHandler)

var files = sqlite.Files{Logger: quiet}

type clock struct{}

func (clock) Now() time.Time { return time.Date(2026, 11, 21, 19, 5, 12, 0, time.UTC) }
func (clock) Trusted() bool  { return true }

// gateway is the data directory and the configuration of a gateway, with the name of its
// station to tell it from others.
type gateway struct {
	data   string
	config backup.Configuration
	id     site.GatewayID
}

// newGateway makes a gateway that has an account, a session and a station.
func newGateway(t *testing.T, station string) gateway {
	t.Helper()
	root := t.TempDir()
	g := gateway{data: filepath.Join(root, "data"), config: backup.Configuration{Main: filepath.Join(root, "gatehouse", "gatehouse.toml")}}
	must(t, os.Mkdir(g.data, 0o700))
	db := g.open(t)
	id, err := db.GatewayID(t.Context())
	must(t, err)
	g.id = id
	must(t, db.Amend(t.Context(), nil, []site.Amendment{{AddAccount: &site.Account{ID: "a-1", Email: "a@example.test"}, Record: site.Record{Kind: site.KindAccountAdded}}}))
	must(t, db.AddSession(t.Context(), site.Session{ID: "s-1", Account: "a-1", Refresh: [32]byte{1}, Expires: site.At(clock{}.Now().Add(time.Hour))}, [32]byte{}, site.Record{Kind: site.KindLogin}))
	must(t, db.Amend(t.Context(), nil, []site.Amendment{{AddStation: &site.Station{ID: 1, Name: station, Token: "one"}, Record: site.Record{Kind: site.KindStationAdded}}}))
	must(t, db.Close())
	g.write(t, "data/token.key", station+" token key")
	g.write(t, "data/tls/ca.crt", station+" certificate of the CA")
	g.write(t, "data/tls/ca.key", station+" key of the CA")
	g.write(t, "gatehouse/gatehouse.toml", "# of "+station+"\n")
	return g
}

func (g gateway) open(t *testing.T) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(g.data, "gatehouse.db"), Boot: "boot", Logger: quiet})
	must(t, err)
	db.UseClock(clock{})
	return db
}

func (g gateway) root() string { return filepath.Dir(g.data) }

// path returns the path of a file with the names of its folders between slashes.
func (g gateway) path(name string) string { return g.root() + "/" + name }

func (g gateway) write(t *testing.T, name, text string) {
	t.Helper()
	path := g.path(name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o640))
}

func (g gateway) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(g.path(name))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// runtime returns the runtime directory of the gateway.
func (g gateway) runtime() string { return g.root() }

// lines returns revocations as package amend writes them.
func lines(t *testing.T, all ...site.Amendment) (text []byte) {
	t.Helper()
	for _, a := range all {
		a.Record = site.Record{Kind: site.KindSessionRevoked}
		line, err := json.Marshal(a)
		must(t, err)
		text = append(append(text, line...), '\n')
	}
	return text
}

// hold has the slate of the gateway hold revocations, on the disk or in memory alone.
func (g gateway) hold(t *testing.T, revocations []byte, disk bool) {
	t.Helper()
	s, _, err := slate.Open(g.data, g.runtime(), string(g.id))
	must(t, err)
	must(t, s.Hold(revocations))
	if disk {
		must(t, s.Save(t.Context()))
		must(t, os.Remove(filepath.Join(g.runtime(), "revocations")))
	}
}

func (g gateway) source() backup.Source {
	return backup.Source{Data: g.data, Runtime: g.runtime(), Version: "1.2.3", Database: files, Now: clock{}.Now}
}

func (g gateway) inventory(t *testing.T) site.Inventory {
	t.Helper()
	inv, err := files.Inspect(t.Context(), filepath.Join(g.data, "gatehouse.db"), "the database")
	must(t, err)
	return inv
}

// broken returns the first record that was changed.
func (g gateway) broken(t *testing.T) uint64 {
	t.Helper()
	v, err := files.Verify(t.Context(), filepath.Join(g.data, "gatehouse.db"))
	must(t, err)
	return v.Broken
}

// back makes a backup of the stopped gateway, with all its configuration.
func (g gateway) back(t *testing.T) string {
	t.Helper()
	parcel, err := g.source().Stopped(t.Context())
	must(t, err)
	config, err := g.config.Load()
	must(t, err)
	data := parcel.Reader()
	path := filepath.Join(t.TempDir(), "a.backup")
	out, err := backup.Create(path, false)
	must(t, err)
	_, err = backup.Seal(t.Context(), out, passphrase, data, config)
	must(t, err)
	must(t, data.Close())
	_, err = out.Keep()
	must(t, err)
	return path
}

// pieces is what the archive of the stopped gateway holds, to be crafted anew.
func (g gateway) pieces(t *testing.T) (backup.Manifest, []backup.Piece) {
	t.Helper()
	parcel, err := g.source().Stopped(t.Context())
	must(t, err)
	var archive bytes.Buffer
	must(t, parcel.Write(&archive))
	must(t, parcel.Close())
	found, err := backup.ReadArchive(&archive)
	must(t, err)
	m := parcel.Manifest
	config, err := g.config.Load()
	must(t, err)
	for _, c := range config {
		m.Files = append(m.Files, c.Entry)
		found[c.Name] = c.Text
	}
	var pieces []backup.Piece
	for _, e := range m.Files {
		pieces = append(pieces, backup.Piece{Name: e.Name, Text: found[e.Name]})
	}
	return m, pieces
}

func (g gateway) readPath(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// crafted is a backup of the gateway that took little work to make.
func (g gateway) crafted(t *testing.T) string {
	t.Helper()
	m, pieces := g.pieces(t)
	return craft(t, m, pieces...)
}

func craft(t *testing.T, manifest any, pieces ...backup.Piece) string {
	t.Helper()
	var sealed bytes.Buffer
	must(t, backup.Craft(&sealed, passphrase, 1, manifest, pieces...))
	return save(t, sealed.Bytes())
}

func save(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.backup")
	must(t, os.WriteFile(path, text, 0o600))
	return path
}

// order is what the tests restore with, unless they say otherwise.
func (g gateway) order(path string) backup.Order {
	return backup.Order{Data: g.data, Medium: path, By: "uid 0 (root)", Now: clock{}.Now()}
}

// try restores the data of a file as root and the owner of the data do it together.
func (g gateway) try(ctx context.Context, path string, o backup.Order) (r backup.Restored, draft backup.Draft, err error) {
	m, err := backup.Open(path)
	if err != nil {
		return r, nil, err
	}
	defer func() { _ = m.Close() }()
	from, to := io.Pipe()
	restored := make(chan error, 1)
	go func() {
		var err error
		r, err = backup.Restore(ctx, o, files, from)
		_ = from.Close()
		restored <- err
	}()
	_, draft, err = m.Pass(ctx, passphrase, to)
	if err == nil {
		err = backup.Confirm(to)
	}
	_ = to.Close()
	failed := <-restored
	if errors.Is(err, io.ErrClosedPipe) {
		err = failed
	}
	return r, draft, cmp.Or(err, failed)
}

// prepare prepares the configuration of a backup.
func (g gateway) prepare(t *testing.T, draft backup.Draft) *backup.Placement {
	t.Helper()
	p, err := g.config.Prepare(draft, g.config.More, os.Getgid(), backup.Stamp(clock{}.Now()))
	must(t, err)
	return p
}

// done is what a restore has done.
type done struct {
	backup.Restored
	*backup.Placement
}

// restore restores a file to the gateway, with its configuration.
func (g gateway) restore(t *testing.T, path string) (d done) {
	t.Helper()
	r, draft, err := g.try(t.Context(), path, g.order(path))
	must(t, err)
	d = done{r, g.prepare(t, draft)}
	must(t, d.Write())
	return d
}

// restoreData restores a file to the gateway, without its configuration.
func (g gateway) restoreData(t *testing.T, path string, o backup.Order) backup.Restored {
	t.Helper()
	r, _, err := g.try(t.Context(), path, o)
	must(t, err)
	return r
}

// tree is every file and folder under a folder, with its bytes.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			all[path] = ""
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	}))
	return all
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

// same reports what differs between two trees.
func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if text, ok := after[path]; !ok || text != before[path] {
			t.Errorf("%s is gone or changed", path)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			t.Errorf("%s is new", path)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hidden returns the names of a folder that begin with a dot or name a restore.
func hidden(t *testing.T, folder string) (found []string) {
	t.Helper()
	for _, name := range names(t, folder) {
		if strings.HasPrefix(name, ".") {
			found = append(found, name)
		}
	}
	return found
}
