package backup_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/site"
)

// A blank directory that restores a backup is the same gateway.
func TestRestore_blank(t *testing.T) {
	old := newGateway(t, "North")
	old.write(t, "gatehouse/conf.d/50-site.toml", "name = \"North\"\n")
	old.write(t, "gatehouse/conf.d/50-site.toml~", "an editor's")
	old.write(t, "gatehouse/credentials/mqtt", "secret")
	old.write(t, "gatehouse/ssl/cert.pem", "certificate")
	old.write(t, "gatehouse/notes.txt", "nothing of ours")
	old.config.More = []string{old.path("gatehouse/ssl/cert.pem"), "/elsewhere/key.pem"}
	path := old.back(t)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: %v, %v", info, err)
	}
	for _, secret := range []string{"North", "key of the CA", "a@example.test", "SQLite"} {
		if strings.Contains(old.readPath(t, path), secret) {
			t.Errorf("%q is in the backup in clear text", secret)
		}
	}

	root := t.TempDir()
	blank := gateway{data: filepath.Join(root, "data"), config: backup.Configuration{Main: filepath.Join(root, "gatehouse", "other.toml")}}
	blank.config.More = []string{blank.path("gatehouse/ssl/cert.pem"), "/elsewhere/key.pem"}
	must(t, os.Mkdir(blank.data, 0o700))
	done := blank.restore(t, path)
	if done.Ended != 1 || done.Kept != "" || len(done.Written) != 4 || !done.Certificates {
		t.Errorf("done: %+v", done)
	}
	want := old.inventory(t)
	want.Sessions, want.Records, want.Last = 0, want.Records+1, want.Last+1
	got := blank.inventory(t)
	want.Newest, want.Head = got.Newest, got.Head
	if got != want || got.Gateway != old.id {
		t.Errorf("it holds %+v, want %+v", got, want)
	}
	for name, mode := range map[string]os.FileMode{
		"data/tls/ca.crt": 0o600, "data/tls/ca.key": 0o600,
		"gatehouse/conf.d/50-site.toml": 0o640, "gatehouse/credentials/mqtt": 0o600, "gatehouse/ssl/cert.pem": 0o640,
	} {
		if blank.read(t, name) != old.read(t, name) {
			t.Errorf("%s is another one", name)
		}
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if blank.read(t, "gatehouse/other.toml") != old.read(t, "gatehouse/gatehouse.toml") {
		t.Error("the main file is another one")
	}
	if found := names(t, filepath.Join(root, "gatehouse")); !slices.Equal(found, []string{"conf.d", "credentials", "other.toml", "ssl"}) {
		t.Errorf("the configuration has %v", found)
	}
	if found := names(t, blank.data); !slices.Equal(found, []string{"gatehouse.db", "gatehouse.db-shm", "gatehouse.db-wal", "tls"}) {
		t.Errorf("the data directory has %v", found)
	}
	if outside := old.config.Outside(); !slices.Equal(outside, []string{"/elsewhere/key.pem"}) {
		t.Errorf("left out: %v", outside)
	}
}

// What was there is kept, in the data directory and beside the configuration; sessions
// stay where they shall.
func TestRestore_keepsWhatWasThere(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	old.write(t, "gatehouse/conf.d/10-same.toml", "# same\n")
	present.write(t, "gatehouse/conf.d/10-same.toml", "# same\n")
	present.write(t, "gatehouse/conf.d/50-site.toml", "# of South alone\n")
	present.write(t, "data/gatehouse.db.schema1", "kept by an upgrade of South")
	present.write(t, "data/setup.issue", "not of a backup")
	before := tree(t, present.root())
	done := present.restore(t, old.crafted(t))
	if done.Ended != 1 || present.inventory(t).Sessions != 0 || present.inventory(t).Gateway != old.id {
		t.Errorf("done: %+v, it holds %+v", done, present.inventory(t))
	}
	kept := filepath.Join(present.data, "before-restore-20261121T190512Z")
	if done.Kept != kept {
		t.Errorf("kept in %q", done.Kept)
	}
	for _, name := range []string{"gatehouse.db", "gatehouse.db.schema1", "token.key", "tls/ca.key", "tls/ca.crt"} {
		if present.readPath(t, filepath.Join(kept, name)) != before[filepath.Join(present.data, name)] {
			t.Errorf("%s is not kept", name)
		}
	}
	if found := names(t, present.data); !slices.Equal(found, []string{
		"before-restore-20261121T190512Z", "gatehouse.db", "gatehouse.db-shm", "gatehouse.db-wal", "setup.issue", "tls",
	}) {
		t.Errorf("the data directory has %v", found)
	}
	const aside = ".before-restore-20261121T190512Z"
	etc := tree(t, present.path("gatehouse"))
	same(t, map[string]string{
		present.path("gatehouse"):                             "",
		present.path("gatehouse/gatehouse.toml"):              "# of North\n",
		present.path("gatehouse/gatehouse.toml" + aside):      "# of South\n",
		present.path("gatehouse/conf.d"):                      "",
		present.path("gatehouse/conf.d/10-same.toml"):         "# same\n",
		present.path("gatehouse/conf.d/50-site.toml" + aside): "# of South alone\n",
	}, etc)

	if info, err := os.Stat(present.path("gatehouse/gatehouse.toml" + aside)); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the service cannot read the former configuration again: %v, %v", info, err)
	}

	// A second one in the same second takes another name, and needs no configuration; here
	// sessions stay.
	path := newGateway(t, "West").crafted(t)
	o := present.order(path)
	o.KeepSessions = true
	if r := present.restoreData(t, path, o); r.Kept != kept+"-2" || r.Ended != 0 || present.inventory(t).Sessions != 1 {
		t.Errorf("the second: %+v", r)
	}
	same(t, etc, tree(t, present.path("gatehouse")))
}

// A backup of an earlier build holds the key of access tokens, which no restore uses.
func TestRestore_formerKey(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	m, pieces := old.pieces(t)
	key := []byte("North token key")
	m.Files = append(m.Files, backup.EntryOf("data/token.key", key))
	done := present.restore(t, craft(t, m, append(pieces, backup.Piece{Name: "data/token.key", Text: key})...))
	if found := names(t, present.data); slices.Contains(found, "token.key") || present.inventory(t).Gateway != old.id {
		t.Errorf("the data directory has %v", found)
	}
	if present.readPath(t, filepath.Join(done.Kept, "token.key")) != "South token key" {
		t.Error("the former key is not kept")
	}
}

// A backup without certificates, such as one of the web console, leaves those that are there.
func TestRestore_withoutCertificates(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	source := old.source()
	source.WithoutTLS = true
	parcel, err := source.Stopped(t.Context())
	must(t, err)
	var sealed bytes.Buffer
	must(t, errors.Join(parcel.Seal(&sealed, passphrase), parcel.Close()))
	done := present.restore(t, save(t, sealed.Bytes()))
	if found := names(t, present.data); present.read(t, "data/tls/ca.key") != "South key of the CA" || slices.Contains(found, "token.key") || present.inventory(t).Gateway != old.id {
		t.Errorf("the data directory has %v", found)
	}
	if kept := names(t, done.Kept); done.Certificates || !slices.Contains(kept, "token.key") || slices.Contains(kept, "tls") {
		t.Errorf("%+v, kept: %v", done.Restored, kept)
	}
	blank := gateway{data: filepath.Join(t.TempDir(), "data"), config: present.config}
	must(t, os.Mkdir(blank.data, 0o700))
	blank.restore(t, save(t, sealed.Bytes()))
	if found := names(t, blank.data); slices.Contains(found, "tls") {
		t.Errorf("the data directory has %v", found)
	}
}

// A plain copy of a database replaces the database alone.
func TestRestore_plainCopy(t *testing.T) {
	g := newGateway(t, "North")
	before := g.inventory(t)
	db := g.open(t)
	former := filepath.Join(g.data, "gatehouse.db.schema1")
	must(t, db.Snapshot(t.Context(), former))
	must(t, db.Amend(t.Context(), nil, []site.Amendment{{AddAccount: &site.Account{ID: "a-2", Email: "b@example.test"}, Record: site.Record{Kind: site.KindAccountAdded}}}))
	must(t, db.Close())
	done := g.restore(t, former)
	got := g.inventory(t)
	if got.Accounts != 1 || got.Records != before.Records+1 || done.Ended != 1 {
		t.Errorf("it holds %+v after %+v", got, done)
	}
	if g.read(t, "data/tls/ca.key") != "North key of the CA" || g.read(t, "gatehouse/gatehouse.toml") != "# of North\n" {
		t.Error("more than the database was replaced")
	}
	if kept := names(t, done.Kept); !slices.Equal(kept, []string{"gatehouse.db", "gatehouse.db-shm", "gatehouse.db-wal", "gatehouse.db.schema1", "token.key"}) {
		t.Errorf("kept: %v", kept)
	}
	log := g.open(t)
	defer func() { must(t, log.Close()) }()
	last, err := log.Recent(t.Context(), 1, 1, 0)
	if err != nil || len(last) != 1 || last[0].Count != 1 || last[0].By != "uid 0 (root)" ||
		last[0].Detail != "from a copy of the database whose newest record is of 2026-11-21T19:05:12.000Z; sessions were ended" {
		t.Errorf("the journal says %+v, %v", last, err)
	}
}

// Revocations that a database does not have yet go with its backup, and take effect with the
// restore. So do those of the gateway that is replaced, where it is the same one.
func TestRestore_unstored(t *testing.T) {
	revocations := lines(t,
		site.Amendment{RemoveStation: 1, Revocation: 5},
		site.Amendment{EndSessions: []site.SessionID{"s-1"}, Revocation: 8},
		site.Amendment{RemoveStation: 99, Revocation: 9},
		site.Amendment{PutGrant: &site.Grant{Account: "a-1", Station: 1}, Revocation: 10},
		site.Amendment{EndSessions: []site.SessionID{"s-2"}, Revocation: 11},
	)
	for name, c := range map[string]struct {
		backup func(g gateway) string
		over   func(g gateway) gateway // what is replaced
		want   int
	}{
		"the file of a stopped gateway": {func(g gateway) string { g.hold(t, revocations, true); return g.crafted(t) }, nil, 2},
		"the runtime directory":         {func(g gateway) string { g.hold(t, revocations, false); return g.crafted(t) }, nil, 2},
		"a running gateway": {func(g gateway) string {
			db := g.open(t)
			parcel, err := g.source().Running(t.Context(), revocations, db.Snapshot)
			must(t, err)
			var sealed bytes.Buffer
			must(t, errors.Join(parcel.Seal(&sealed, passphrase), parcel.Close(), db.Close()))
			return save(t, sealed.Bytes())
		}, nil, 2},
		"the gateway that is replaced": {func(g gateway) string {
			path := g.crafted(t)
			g.hold(t, revocations, true)
			return path
		}, func(g gateway) gateway { return g }, 2},
		"both": {func(g gateway) string { g.hold(t, revocations, true); return g.crafted(t) }, func(g gateway) gateway { return g }, 2},
		"another gateway that is replaced": {func(g gateway) string { return g.crafted(t) }, func(gateway) gateway {
			other := newGateway(t, "South")
			other.hold(t, revocations, true)
			return other
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, "North")
			db := g.open(t)
			must(t, db.Amend(t.Context(), nil, []site.Amendment{{RemoveToken: "none", Revocation: 7, Record: site.Record{Kind: site.KindTokenRemoved}}}))
			must(t, db.Close())
			path := c.backup(g)
			present := gateway{data: filepath.Join(t.TempDir(), "data")}
			must(t, os.Mkdir(present.data, 0o700))
			if c.over != nil {
				present = c.over(g)
			}
			o := present.order(path)
			o.KeepSessions, o.Runtime = true, present.runtime()
			r := present.restoreData(t, path, o)
			inv := present.inventory(t)
			if ended := inv.Sessions == 0; r.Revoked != c.want || ended != (c.want > 0) || inv.Stations != 1 || inv.Gateway != g.id {
				t.Errorf("%+v, it holds %+v", r, inv)
			}
			if found := names(t, present.data); slices.Contains(found, "revocations.json") || slices.Contains(found, "gatehouse.db.revocations") {
				t.Errorf("the data directory has %v", found)
			}
			again := present.open(t)
			defer func() { must(t, again.Close()) }()
			if stored, err := again.Revoked(t.Context()); err != nil || c.want > 0 && stored != 11 {
				t.Errorf("stored up to %d, %v", stored, err)
			}
			if grants, err := again.LoadAccess(t.Context()); err != nil || len(grants.Grants) > 0 {
				t.Errorf("a grant was added: %+v, %v", grants.Grants, err)
			}
		})
	}
}

// Revocations that a later version wrote refuse a restore.
func TestRestore_unreadable(t *testing.T) {
	g := newGateway(t, "North")
	g.hold(t, []byte(`{"RemoveRoof":1,"Revocation":1}`+"\n"), true)
	path := g.crafted(t)
	if _, _, err := g.try(t.Context(), path, g.order(path)); !fault.Is(err, fault.Conflict) || !strings.Contains(fault.Sentence(err), "install gatehouse 1.2.3") {
		t.Error(err)
	}
}

// A gateway that was killed has a log beside its database, which belongs to it.
func TestStopped_killed(t *testing.T) {
	g := newGateway(t, "North")
	db := g.open(t)
	for range 50 {
		must(t, db.AppendRecord(t.Context(), site.Record{Kind: site.KindUnlock}))
	}
	killed := gateway{data: filepath.Join(t.TempDir(), "data")}
	must(t, os.CopyFS(killed.data, os.DirFS(g.data)))
	must(t, db.Close())
	_, pieces := killed.pieces(t)
	if !slices.ContainsFunc(pieces, func(p backup.Piece) bool { return p.Name == "data/gatehouse.db-wal" && len(p.Text) > 0 }) {
		t.Error("the archive has no log")
	}
	for _, path := range []string{killed.crafted(t), filepath.Join(killed.data, "gatehouse.db")} {
		blank := gateway{data: t.TempDir()}
		blank.restoreData(t, path, blank.order(path))
		if got := blank.inventory(t); got.Records != g.inventory(t).Records+1 || blank.broken(t) != 0 {
			t.Errorf("from %s: it holds %+v", path, got)
		}
	}
}

func TestStopped_refuses(t *testing.T) {
	g := newGateway(t, "North")
	must(t, os.Truncate(filepath.Join(g.data, "gatehouse.db"), 5000))
	if _, err := g.source().Stopped(t.Context()); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), g.data) {
		t.Errorf("of a damaged database: %v", err)
	}
	g.data = t.TempDir()
	if _, err := g.source().Stopped(t.Context()); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "GATEHOUSE_DATA") {
		t.Errorf("of no gateway: %v", err)
	}
}

// A running gateway makes a parcel without leaving anything, and goes on writing.
func TestRunning(t *testing.T) {
	g := newGateway(t, "North")
	db := g.open(t)
	defer func() { must(t, db.Close()) }()
	parcel, err := g.source().Running(t.Context(), nil, db.Snapshot)
	must(t, err)
	if found := hidden(t, g.data); len(found) > 0 {
		t.Errorf("in the data directory: %v", found)
	}
	must(t, db.AppendRecord(t.Context(), site.Record{Kind: site.KindUnlock}))
	var archive bytes.Buffer
	must(t, parcel.Write(&archive))
	must(t, parcel.Close())
	found, err := backup.ReadArchive(bytes.NewReader(archive.Bytes()))
	if err != nil || string(found["data/tls/ca.key"]) != "North key of the CA" || found["data/token.key"] != nil {
		t.Errorf("%v, %v", slices.Sorted(maps.Keys(found)), err)
	}
	if parcel.Holds.Gateway != g.id || parcel.Holds.Records != 3 || parcel.Version != "1.2.3" || !parcel.Created.Equal(clock{}.Now()) {
		t.Errorf("the manifest says %+v", parcel.Manifest)
	}

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.source().Running(gone, nil, db.Snapshot); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
	if found := hidden(t, g.data); len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
}

// An archive that breaks off, or that a fault on the way has changed, is no backup.
func TestSeal_broken(t *testing.T) {
	g := newGateway(t, "North")
	parcel, err := g.source().Stopped(t.Context())
	must(t, err)
	var archive bytes.Buffer
	must(t, errors.Join(parcel.Write(&archive), parcel.Close()))
	whole := archive.Bytes()
	changed := bytes.Replace(whole, []byte("North key of the CA"), []byte("South key of the CA"), 1)
	for name, text := range map[string][]byte{
		"nothing": {}, "the beginning": whole[:700], "half": whole[:len(whole)/2], "changed": changed,
	} {
		var sealed bytes.Buffer
		if _, err := backup.Seal(t.Context(), &sealed, passphrase, bytes.NewReader(text), nil); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := backup.Seal(t.Context(), failing{}, passphrase, bytes.NewReader(whole), nil); !errors.Is(err, errFull) {
		t.Errorf("on a full disk: %v", err)
	}
	if _, err := backup.Seal(t.Context(), &bytes.Buffer{}, "short", bytes.NewReader(whole), nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("with a weak passphrase: %v", err)
	}
}

var errFull = errors.New("no space left")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestJudgePassphrase(t *testing.T) {
	for passphrase, want := range map[site.Secret]string{
		"":                            "too short",
		"fifteen charact":             "too short",
		"aaaaaaaaaaaaaaaabc":          "first that a program would guess",
		"password12345678":            "first that a program would guess",
		"ёёёёёёёёёёёёёёё":             "too short",
		"sixteen letters.":            "",
		"öäü ÖÄÜ ßéè☃ zwölf":          "",
		"not utf-8 \xff\xfe here, is": "UTF-8",
	} {
		err := backup.JudgePassphrase(passphrase)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !fault.Is(err, fault.Invalid)) {
			t.Errorf("%q: %v", passphrase.Reveal(), err)
		}
	}
}

func TestGeneratePassphrase(t *testing.T) {
	seen := map[site.Secret]bool{}
	for range 200 {
		passphrase := backup.GeneratePassphrase()
		if err := backup.JudgePassphrase(passphrase); err != nil || len(passphrase) != 24 || seen[passphrase] {
			t.Fatalf("%q: %v", passphrase.Reveal(), err)
		}
		seen[passphrase] = true
	}
}
