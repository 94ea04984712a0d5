package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
	"gatehouse/internal/record/backup"
	"gatehouse/internal/site"
)

// sealed returns the bytes of a sound backup.
func sealed(t *testing.T, g gateway) []byte {
	t.Helper()
	return []byte(g.readPath(t, g.crafted(t)))
}

// Whatever is wrong with a file, one sentence says so with its name, and nothing was
// changed.
func TestRestore_refuses(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	old.write(t, "data/tls/ca.crt", strings.Repeat("a long certificate, so that the backup has several chunks. ", 5000)+random(200_000))
	whole := sealed(t, old)
	before := tree(t, present.root())
	for name, c := range map[string]struct {
		file func() string
		kind fault.Kind
		want string
	}{
		"absent":                    {func() string { return filepath.Join(t.TempDir(), "a.backup") }, fault.NotFound, "There is no file PATH"},
		"empty":                     {func() string { return save(t, nil) }, fault.Invalid, "PATH is cut off or damaged"},
		"a folder":                  {func() string { return t.TempDir() }, fault.Unavailable, "PATH cannot be read (it is no ordinary file)"},
		"a pipe that nobody writes": {func() string { return pipe(t) }, fault.Unavailable, "PATH cannot be read (it is no ordinary file)"},
		"a text":                    {func() string { return save(t, []byte("Dear diary, today I locked myself out.")) }, fault.Invalid, "PATH is cut off or damaged"},
		"cut off within its name":   {func() string { return save(t, whole[:10]) }, fault.Invalid, "PATH is cut off or damaged"},
		"cut off in the header":     {func() string { return save(t, whole[:60]) }, fault.Invalid, "PATH is cut off or damaged"},
		"cut off after the header":  {func() string { return save(t, whole[:headerOf(whole)+8]) }, fault.Invalid, "PATH is cut off or damaged"},
		"cut off in the first part": {func() string { return save(t, whole[:headerOf(whole)+5000]) }, fault.Invalid, "PATH is cut off or damaged"},
		"cut off between parts":     {func() string { return save(t, whole[:headerOf(whole)+16+2*(65536+16)]) }, fault.Invalid, "PATH is cut off or damaged"},
		"cut off at half":           {func() string { return save(t, whole[:len(whole)/2]) }, fault.Invalid, "PATH is cut off or damaged"},
		"cut off by one byte":       {func() string { return save(t, whole[:len(whole)-1]) }, fault.Invalid, "PATH is cut off or damaged"},
		"longer by one byte":        {func() string { return save(t, append(slices.Clone(whole), 0)) }, fault.Invalid, "PATH is"},
		"damaged in the header":     {func() string { return save(t, flipped(whole, headerOf(whole)-9)) }, fault.Invalid, "PATH is cut off or damaged"},
		"damaged in its salt":       {func() string { return save(t, salted(whole)) }, fault.Unauthenticated, "The passphrase does not open PATH"},
		"damaged in the middle":     {func() string { return save(t, flipped(whole, len(whole)/2)) }, fault.Invalid, "PATH is cut off or damaged"},
		"damaged at the end":        {func() string { return save(t, flipped(whole, len(whole)-3)) }, fault.Invalid, "PATH is cut off or damaged"},
		"another passphrase":        {func() string { return encrypted(t, "another passphrase", "x") }, fault.Unauthenticated, "The passphrase does not open PATH: try again with the one that it was made with"},
		"of another program":        {func() string { return encrypted(t, passphrase, "Dear diary, today I locked myself out.") }, fault.Invalid, "PATH is cut off or damaged"},
		"for a key":                 {func() string { return forKey(t) }, fault.Invalid, "PATH is cut off or damaged"},
		"of too much work":          {func() string { return save(t, laborious(whole)) }, fault.Invalid, "PATH is cut off or damaged"},
	} {
		path := c.file()
		_, _, err := present.try(t.Context(), path, present.order(path))
		if !fault.Is(err, c.kind) || !strings.HasPrefix(fault.Sentence(err), strings.ReplaceAll(c.want, "PATH", path)) {
			t.Errorf("%s: (%v) %v", name, fault.KindOf(err), err)
		}
	}
	same(t, before, tree(t, present.root()))
}

func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o600))
	return path
}

// headerOf returns the length of the header of an encrypted file.
func headerOf(text []byte) int {
	at := bytes.Index(text, []byte("\n---"))
	return at + 1 + bytes.IndexByte(text[at+1:], '\n') + 1
}

// salted changes the salt, which is in base64 in the second line.
func salted(text []byte) []byte {
	text = slices.Clone(text)
	at := bytes.Index(text, []byte("-> scrypt ")) + 15
	if text[at] != 'A' {
		text[at] = 'A'
	} else {
		text[at] = 'B'
	}
	return text
}

// laborious asks for more work than a backup does.
func laborious(text []byte) []byte {
	return bytes.Replace(text, []byte(" 1\n"), fmt.Appendf(nil, " %d\n", backup.MaxWork+1), 1)
}

func flipped(text []byte, at int) []byte {
	text = slices.Clone(text)
	text[at] ^= 1
	return text
}

// random returns text that does not shrink, the same every time.
func random(n int) string {
	state, text := uint32(1), make([]byte, n)
	for i := range text {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		text[i] = byte(state)
	}
	return string(text)
}

// encrypted is a text that was encrypted by age itself.
func encrypted(t *testing.T, passphrase site.Secret, text string) string {
	t.Helper()
	recipient, err := age.NewScryptRecipient(passphrase.Reveal())
	must(t, err)
	recipient.SetWorkFactor(1)
	return encryptedTo(t, recipient, text)
}

func forKey(t *testing.T) string {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	must(t, err)
	return encryptedTo(t, key.Recipient(), "x")
}

func encryptedTo(t *testing.T, recipient age.Recipient, text string) string {
	t.Helper()
	var out bytes.Buffer
	w, err := age.Encrypt(&out, recipient)
	must(t, err)
	_, err = io.WriteString(w, text)
	must(t, err)
	must(t, w.Close())
	return save(t, out.Bytes())
}

func TestMedium_Pass_emptyPassphrase(t *testing.T) {
	g := newGateway(t, "North")
	m, err := backup.Open(g.crafted(t))
	must(t, err)
	defer func() { must(t, m.Close()) }()
	_, _, err = m.Pass(t.Context(), "", io.Discard)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "The passphrase is empty") {
		t.Error(err)
	}
}

// What a backup holds is not trusted though it was encrypted with the right passphrase.
func TestRestore_refusesContents(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	sound, pieces := old.pieces(t)
	before := tree(t, present.root())
	with := func(name string, text []byte) func(*archive) {
		return func(a *archive) {
			a.manifest.Files = append(a.manifest.Files, backup.EntryOf(name, text))
			a.pieces = append(a.pieces, backup.Piece{Name: name, Text: text})
		}
	}
	const foreign = "PATH is cut off or damaged"
	for name, c := range map[string]struct {
		spoil func(a *archive)
		kind  fault.Kind
		want  string
	}{
		"a newer format": {
			func(a *archive) { a.manifest.Format, a.manifest.Version = 2, "3.0.0" }, fault.Conflict,
			"PATH is of a newer version: it was made by gatehouse 3.0.0 in format 2, and this one reads format 1; install gatehouse 3.0.0 or newer first",
		},
		"no format":           {func(a *archive) { a.manifest.Format = 0 }, fault.Invalid, foreign},
		"no files":            {func(a *archive) { a.manifest.Files, a.pieces = nil, nil }, fault.Invalid, foreign},
		"no database":         {func(a *archive) { a.manifest.Files, a.pieces = a.manifest.Files[1:], a.pieces[1:] }, fault.Invalid, foreign},
		"a file less":         {func(a *archive) { a.pieces = a.pieces[:2] }, fault.Invalid, foreign},
		"a file more":         {func(a *archive) { a.pieces = append(a.pieces, backup.Piece{Name: "data/tls/more", Text: []byte("x")}) }, fault.Invalid, foreign},
		"another order":       {func(a *archive) { a.pieces[1], a.pieces[2] = a.pieces[2], a.pieces[1] }, fault.Invalid, foreign},
		"another text":        {func(a *archive) { a.pieces[1].Text = []byte("South token key") }, fault.Invalid, foreign},
		"a file twice":        {with("data/tls/ca.key", []byte("x")), fault.Invalid, foreign},
		"a way out":           {with("data/tls/../../../evil", []byte("x")), fault.Invalid, foreign},
		"a way out of config": {with("config/../../evil", []byte("x")), fault.Invalid, foreign},
		"an absolute path":    {with("/etc/evil", []byte("x")), fault.Invalid, foreign},
		"nothing of ours":     {with("data/admin.sock", []byte("x")), fault.Invalid, foreign},
		"a folder as a file":  {with("config/", nil), fault.Invalid, foreign},
		"no manifest of ours": {func(a *archive) { a.manifest.Files[0].Size = -1 }, fault.Invalid, foreign},
		"another gateway's":   {func(a *archive) { a.manifest.Holds.Gateway = "another" }, fault.Invalid, "The database in PATH is not the one that its manifest speaks of"},
		"a link": {func(a *archive) {
			a.pieces[1] = backup.Piece{Name: a.pieces[1].Name, Text: []byte("/etc/passwd"), Type: tar.TypeSymlink}
		}, fault.Invalid, foreign},
		"an empty link": {func(a *archive) {
			a.manifest.Files = append(a.manifest.Files, backup.EntryOf("data/tls/link", nil))
			a.pieces = append(a.pieces, backup.Piece{Name: "data/tls/link", Text: []byte("/etc/passwd"), Type: tar.TypeSymlink})
		}, fault.Invalid, foreign},
		"something behind its end": {func(a *archive) { a.pieces = append(a.pieces, backup.Piece{Text: make([]byte, 4096)}) }, fault.Invalid, foreign},
		"more than there is":       {func(a *archive) { a.manifest.Files[1].Size = 1 << 60 }, fault.Invalid, foreign},
		"a damaged database":       {swapped(0, func(text []byte) []byte { return append(text[:4096:4096], make([]byte, len(text)-4096)...) }), fault.Invalid, "The database in PATH is damaged"},
		"a newer database":         {swapped(0, func(text []byte) []byte { return append(append(text[:60:60], 0, 0, 0, 99), text[64:]...) }), fault.Conflict, "The database in PATH is of a newer version of gatehouse (schema 99, this one knows "},
	} {
		a := &archive{manifest: sound, pieces: slices.Clone(pieces)}
		a.manifest.Files = slices.Clone(sound.Files)
		c.spoil(a)
		path := craft(t, a.manifest, a.pieces...)
		_, _, err := present.try(t.Context(), path, present.order(path))
		if !fault.Is(err, c.kind) || !strings.HasPrefix(fault.Sentence(err), strings.ReplaceAll(c.want, "PATH", path)) {
			t.Errorf("%s: (%v) %v", name, fault.KindOf(err), err)
		}
	}
	for name, text := range map[string][]byte{"no JSON": []byte("{"), "null": []byte("null"), "numbers": []byte(`{"format":"x"}`)} {
		path := craft(t, text)
		if _, _, err := present.try(t.Context(), path, present.order(path)); err == nil {
			t.Errorf("a manifest of %s was taken", name)
		}
	}
	same(t, before, tree(t, present.root()))
}

// archive is what a backup is made of by hand.
type archive struct {
	manifest backup.Manifest
	pieces   []backup.Piece
}

// swapped changes the text of a piece, and its entry with it.
func swapped(at int, change func([]byte) []byte) func(*archive) {
	return func(a *archive) {
		a.pieces[at].Text = change(slices.Clone(a.pieces[at].Text))
		a.manifest.Files[at] = backup.EntryOf(a.pieces[at].Name, a.pieces[at].Text)
	}
}

// The journal of a backup must be sound, or be taken knowingly.
func TestRestore_brokenJournal(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	tamper(t, filepath.Join(old.data, "gatehouse.db"), "UPDATE journal SET body = replace(body, 'login', 'Login') WHERE seq = 2")
	path := old.crafted(t)
	o := present.order(path)
	if _, _, err := present.try(t.Context(), path, o); !fault.Is(err, fault.Invalid) ||
		!strings.HasPrefix(err.Error(), "The journal in "+path+" is broken at record 2 (the record or one before it was changed)") {
		t.Error(err)
	}
	o.AcceptJournal = true
	if r := present.restoreData(t, path, o); r.Broken != 2 {
		t.Errorf("restored: %+v", r)
	}
	if got := present.inventory(t); got.Gateway != old.id || present.broken(t) != 2 {
		t.Errorf("it holds %+v", got)
	}
}

func TestOutput(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a.backup")
	must(t, os.WriteFile(filepath.Join(folder, "there"), []byte("x"), 0o600))
	for name, c := range map[string]struct {
		path  string
		force bool
		kind  fault.Kind
		want  string
	}{
		"there already":      {filepath.Join(folder, "there"), false, fault.Conflict, "replace it with --force"},
		"a folder":           {folder, true, fault.Invalid, "no ordinary file"},
		"a device":           {"/dev/null", true, fault.Invalid, "no ordinary file"},
		"no folder":          {filepath.Join(folder, "none", "a"), false, fault.Unavailable, "cannot be written (no such file or directory): see that its medium is mounted"},
		"a file as a folder": {filepath.Join(folder, "there", "a"), false, fault.Unavailable, "cannot be written (not a directory)"},
	} {
		if _, err := backup.Create(c.path, c.force); !fault.Is(err, c.kind) || !strings.Contains(fault.Sentence(err), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}

	// Two that are written at once do not mix.
	out, err := backup.Create(path, false)
	must(t, err)
	other, err := backup.Create(path, false)
	must(t, err)
	_, err = other.Write([]byte("other"))
	must(t, errors.Join(err, other.Discard()))
	_, err = out.Write([]byte("hello"))
	must(t, err)
	size, err := out.Keep()
	must(t, err)
	text, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || string(text) != "hello" || size != 5 || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, %d, %v, %v", text, size, info.Mode(), err)
	}
	out, err = backup.Create(path, true)
	must(t, err)
	must(t, out.Discard())
	if found := names(t, folder); !slices.Equal(found, []string{"a.backup", "there"}) {
		t.Errorf("left behind: %v", found)
	}
}

// An interrupt leaves everything as it was.
func TestRestore_calledOff(t *testing.T) {
	old, present := newGateway(t, "North"), newGateway(t, "South")
	before := tree(t, present.root())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{old.crafted(t), filepath.Join(old.data, "gatehouse.db")} {
		if _, _, err := present.try(gone, path, present.order(path)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
	}
	same(t, before, tree(t, present.root()))
}

// FuzzReadArchive reads any bytes as the content of the encryption: nothing that
// the manifest does not name, or that is not what it says, comes out.
func FuzzReadArchive(f *testing.F) {
	for _, text := range []string{"", "{}", `{"format":1}`, `{"format":1,"version":"1","files":[{"name":"data/gatehouse.db","size":0,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]}`} {
		for _, pieces := range [][]backup.Piece{nil, {{Name: "data/gatehouse.db"}}, {{Name: "../evil", Text: []byte("x")}}} {
			var seed bytes.Buffer
			if err := backup.Archive(&seed, []byte(text), pieces...); err != nil {
				f.Fatal(err)
			}
			f.Add(seed.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		files, err := backup.ReadArchive(bytes.NewReader(text))
		if err != nil {
			return
		}
		for name := range files {
			below, data := strings.CutPrefix(name, "data/")
			if !data {
				below, data = strings.CutPrefix(name, "config/")
			}
			if !data || !filepath.IsLocal(below) {
				t.Errorf("%q came out", name)
			}
		}
	})
}

// A plain copy is opened again when it is passed on to the user of the data. A link that
// this user has put in its place is not followed.
func TestMedium_Pass_link(t *testing.T) {
	g := newGateway(t, "North")
	path := filepath.Join(t.TempDir(), "copy.db")
	must(t, os.WriteFile(path, []byte(g.read(t, "data/gatehouse.db")), 0o600))
	m, err := backup.Open(path)
	must(t, err)
	defer func() { _ = m.Close() }()
	var passed bytes.Buffer
	_, _, err = m.Pass(t.Context(), "", &passed)
	must(t, err)
	passed.Reset()
	must(t, os.Remove(path))
	must(t, os.Symlink(g.path("data/token.key"), path))
	if _, _, err = m.Pass(t.Context(), "", &passed); err == nil || passed.Len() > 0 {
		t.Errorf("%d bytes of another file were passed on, %v", passed.Len(), err)
	}
}

// A gateway that sends a configuration with its data would choose what root restores.
func TestSeal_configurationAmongData(t *testing.T) {
	m, err := backup.Open(newGateway(t, "North").crafted(t))
	must(t, err)
	defer func() { _ = m.Close() }()
	var archive bytes.Buffer
	_, _, err = m.Pass(t.Context(), passphrase, &archive)
	must(t, err)
	if _, err := backup.Seal(t.Context(), io.Discard, passphrase, &archive, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("it was taken: %v", err)
	}
}
