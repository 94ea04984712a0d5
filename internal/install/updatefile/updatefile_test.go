package updatefile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/fault"
	"gatehouse/internal/install/updatefile"
)

func key(t testing.TB, id string) api.PrivateKey {
	t.Helper()
	k, err := api.Generate(id)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ring(t testing.TB, keys ...api.PrivateKey) api.Keyring {
	t.Helper()
	var lines []string
	for _, k := range keys {
		lines = append(lines, k.Public().String())
	}
	r, err := api.NewKeyring(lines)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// noise returns n bytes that look random and are the same each time.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// root is a file system with a hole.
func root() []byte { return slices.Concat(noise(5*4096), make([]byte, 40*4096), noise(3*4096)) }

func release(version string) updatefile.Release {
	return updatefile.Release{
		Family: "gatehouse-arm64", Version: version, Schema: 9, Time: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC),
		Kernel: bytes.NewReader(noise(9000)), Initrd: strings.NewReader("initrd"),
		Entry:      strings.NewReader("title Gatehouse " + version + "\nlinux /gatehouse/@SLOT@/vmlinuz\noptions gatehouse.slot=@SLOT@\n"),
		ShellEntry: strings.NewReader("title shell\nlinux /gatehouse/@SLOT@/vmlinuz\n"),
		Root:       bytes.NewReader(root()),
	}
}

func pack(t testing.TB, r updatefile.Release, keys ...api.PrivateKey) []byte {
	t.Helper()
	r.Scratch = t.TempDir()
	var b bytes.Buffer
	if _, err := updatefile.Pack(&b, r, keys...); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(r.Scratch); err != nil || len(left) > 0 {
		t.Fatalf("%v, %v is left", left, err)
	}
	return b.Bytes()
}

func open(raw []byte, keys api.Keyring) (*updatefile.File, error) {
	return updatefile.Open(bytes.NewReader(raw), int64(len(raw)), keys)
}

// whole opens an update, and verifies all of it.
func whole(t testing.TB, raw []byte, keys api.Keyring) error {
	f, err := open(raw, keys)
	if err != nil {
		return err
	}
	if err := f.Verify(t.Context(), func(int64) {}); err != nil {
		return err
	}
	return f.VerifyRoot(t.Context(), func(int64) {})
}

func TestPack(t *testing.T) {
	k, other := key(t, "release"), key(t, "next")
	raw := pack(t, release("1.3.0"), k, other)
	if again := pack(t, release("1.3.0"), k, other); !bytes.Equal(raw, again) {
		t.Error("the same input makes other bytes")
	}
	for name, keys := range map[string]api.Keyring{"both": ring(t, k, other), "the old": ring(t, k), "the new": ring(t, other)} {
		if err := whole(t, raw, keys); err != nil {
			t.Errorf("with %s: %v", name, err)
		}
	}
	f, err := open(raw, ring(t, k))
	if err != nil {
		t.Fatal(err)
	}
	if m := f.Manifest; m.Version != "1.3.0" || m.Family != "gatehouse-arm64" || m.Schema != 9 || m.Time.IsZero() || m.Unpacked().Size != int64(len(root())) {
		t.Errorf("the manifest is %+v", m)
	}
	unpacked, err := f.Unpack()
	if err != nil {
		t.Fatal(err)
	}
	defer unpacked.Close()
	if got, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(got, root()) {
		t.Errorf("the root has %d bytes, %v", len(got), err)
	}
	if got, err := io.ReadAll(f.Part(updatefile.Initrd)); err != nil || string(got) != "initrd" {
		t.Errorf("the initrd is %q, %v", got, err)
	}
	entry, err := f.EntryFor(updatefile.Entry, "b")
	if err != nil || !strings.Contains(string(entry), "linux /gatehouse/b/vmlinuz\noptions gatehouse.slot=b\n") {
		t.Errorf("the entry is %q, %v", entry, err)
	}
	if len(raw) > 60_000 {
		t.Errorf("the update has %d bytes: is its root compressed?", len(raw))
	}
}

func TestPack_refuses(t *testing.T) {
	k := key(t, "release")
	for name, c := range map[string]struct {
		change func(*updatefile.Release)
		keys   []api.PrivateKey
	}{
		"no signer":        {func(*updatefile.Release) {}, nil},
		"too many signers": {func(*updatefile.Release) {}, []api.PrivateKey{k, k, k, k, k}},
		"no version":       {func(r *updatefile.Release) { r.Version = "" }, []api.PrivateKey{k}},
		"a wrong version":  {func(r *updatefile.Release) { r.Version = "v1/2" }, []api.PrivateKey{k}},
		"no family":        {func(r *updatefile.Release) { r.Family = "" }, []api.PrivateKey{k}},
		"no schema":        {func(r *updatefile.Release) { r.Schema = 0 }, []api.PrivateKey{k}},
		"an empty kernel":  {func(r *updatefile.Release) { r.Kernel = strings.NewReader("") }, []api.PrivateKey{k}},
		"half a block":     {func(r *updatefile.Release) { r.Root = bytes.NewReader(noise(4096 + 512)) }, []api.PrivateKey{k}},
	} {
		r := release("1.3.0")
		r.Scratch = t.TempDir()
		c.change(&r)
		if _, err := updatefile.Pack(io.Discard, r, c.keys...); err == nil {
			t.Errorf("with %s it was packed", name)
		}
	}
}

// handmade returns an update whose manifest is what change makes of the one of raw, signed.
func handmade(t testing.TB, k api.PrivateKey, raw []byte, change func(m map[string]any)) []byte {
	t.Helper()
	f, err := open(raw, ring(t, k))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(f.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	_, parts, _ := bytes.Cut(raw, text)
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	change(m)
	if text, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(sealed(k, text), parts)
}

// sealed returns the beginning of an update with that manifest.
func sealed(k api.PrivateKey, manifest []byte) []byte {
	const first = "gatehouse-update 1\n"
	signature := base64.StdEncoding.EncodeToString(k.SignText(append([]byte(first), manifest...)))
	return fmt.Appendf(nil, "%s%s %s\nmanifest %d\n%s", first, k.Public().ID, signature, len(manifest), manifest)
}

func part(m map[string]any, n int) map[string]any { return m["parts"].([]any)[n].(map[string]any) }

// Each refusal is one sentence that says what to do.
func TestOpen_refuses(t *testing.T) {
	k, foreign := key(t, "release"), key(t, "foreign")
	good := pack(t, release("1.3.0"), k)
	replaced := func(old, new string) []byte { return bytes.Replace(good, []byte(old), []byte(new), 1) }
	lines := bytes.SplitN(good, []byte("\n"), 4)
	twice := func(n int) []byte {
		return slices.Concat(lines[0], []byte("\n"), bytes.Repeat(append(slices.Clone(lines[1]), '\n'), n), lines[2], []byte("\n"), lines[3])
	}
	if err := whole(t, twice(4), ring(t, k)); err != nil {
		t.Errorf("with four signatures: %v", err)
	}
	for name, c := range map[string]struct {
		raw  []byte
		keys api.Keyring
		want string
	}{
		"nothing":             {nil, ring(t, k), "no update of Gatehouse"},
		"another file":        {noise(5000), ring(t, k), "no update of Gatehouse"},
		"a later form":        {replaced("update 1", "update 2"), ring(t, k), "a form that this version does not know"},
		"no signature":        {twice(0), ring(t, k), "not signed"},
		"five signatures":     {twice(5), ring(t, k), "signatures of the update are damaged"},
		"an unknown key":      {pack(t, release("1.3.0"), foreign), ring(t, k), "signed with the key foreign, and this image trusts release only"},
		"a key of that name":  {pack(t, release("1.3.0"), key(t, "release")), ring(t, k), "damaged, or was changed after the key release signed it"},
		"no key":              {good, api.Keyring{}, "This image has no key"},
		"another manifest":    {replaced("1.3.0", "9.3.0"), ring(t, k), "damaged, or was changed"},
		"a base64 line break": {slices.Concat(lines[0], []byte("\n"), lines[1], []byte("\r\n"), lines[2], []byte("\n"), lines[3]), ring(t, k), "signatures of the update are damaged"},
		"a length with zeros": {replaced("manifest ", "manifest 0"), ring(t, k), "length of the manifest"},
		"a huge manifest":     {replaced("manifest ", "manifest 99"), ring(t, k), "length of the manifest"},
		"half of its head":    {good[:40], ring(t, k), "ends within its first lines"},
		"half a manifest":     {good[:400], ring(t, k), "ends within its manifest"},
		"cut":                 {good[:len(good)-1], ring(t, k), "cut off, with"},
		"trailing bytes":      {append(slices.Clone(good), 'x'), ring(t, k), "1 bytes too many"},
		"a part twice":        {handmade(t, k, good, func(m map[string]any) { part(m, 1)["name"] = "vmlinuz" }), ring(t, k), "part vmlinuz twice"},
		"an unknown part":     {handmade(t, k, good, func(m map[string]any) { part(m, 1)["name"] = "firmware" }), ring(t, k), `part "firmware", which is unknown`},
		"a part missing":      {handmade(t, k, good, func(m map[string]any) { m["parts"] = m["parts"].([]any)[1:] }), ring(t, k), "part vmlinuz is missing"},
		"a huge part":         {handmade(t, k, good, func(m map[string]any) { part(m, 0)["size"] = int64(1) << 62 }), ring(t, k), "bytes; 1 to"},
		"a negative part":     {handmade(t, k, good, func(m map[string]any) { part(m, 0)["size"] = -1 }), ring(t, k), "bytes; 1 to"},
		"a root as it is":     {handmade(t, k, good, func(m map[string]any) { delete(part(m, 4), "unpacked") }), ring(t, k), "unpacked size"},
		"a packed kernel":     {handmade(t, k, good, func(m map[string]any) { part(m, 0)["unpacked"] = part(m, 4)["unpacked"] }), ring(t, k), "unpacked size"},
		"half a block":        {handmade(t, k, good, func(m map[string]any) { part(m, 4)["unpacked"].(map[string]any)["size"] = 4097 }), ring(t, k), "multiple of 4096"},
		"no JSON":             {sealed(k, []byte("{")), ring(t, k), "cannot be read"},
		"a wrong hash":        {handmade(t, k, good, func(m map[string]any) { part(m, 2)["sha256"] = "00" }), ring(t, k), "cannot be read"},
		"another kernel":      {handmade(t, k, good, func(m map[string]any) { part(m, 0)["sha256"] = strings.Repeat("0", 64) }), ring(t, k), "is damaged: copy"},
		"another root": {handmade(t, k, good, func(m map[string]any) {
			part(m, 4)["unpacked"].(map[string]any)["sha256"] = strings.Repeat("0", 64)
		}), ring(t, k), "is damaged: copy"},
		"a root that is shorter": {handmade(t, k, good, func(m map[string]any) { part(m, 4)["unpacked"].(map[string]any)["size"] = 1 << 20 }), ring(t, k), "is damaged: copy"},
		"a root that is longer":  {handmade(t, k, good, func(m map[string]any) { part(m, 4)["unpacked"].(map[string]any)["size"] = 4096 }), ring(t, k), "is damaged: copy"},
	} {
		err := whole(t, c.raw, c.keys)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.Sentence(err), c.want) || strings.Contains(fault.Sentence(err), "\n") {
			t.Errorf("of %s: %v; want %q", name, err, c.want)
		}
	}
}

// A part whose bytes were changed is found, wherever it is.
func TestFile_Verify_damaged(t *testing.T) {
	k := key(t, "release")
	good := pack(t, release("1.3.0"), k)
	f, err := open(good, ring(t, k))
	if err != nil {
		t.Fatal(err)
	}
	at := int64(len(good))
	for _, p := range slices.Backward(f.Manifest.Parts) {
		at -= p.Size
		for _, offset := range []int64{0, p.Size / 2, p.Size - 1} {
			raw := slices.Clone(good)
			raw[at+offset] ^= 1
			if err := whole(t, raw, ring(t, k)); !fault.Is(err, fault.Invalid) {
				t.Errorf("byte %d of %s: %v", offset, p.Name, err)
			}
			changed, err := open(raw, ring(t, k))
			if err != nil {
				t.Fatal(err)
			}
			if p.Name == updatefile.Entry || p.Name == updatefile.ShellEntry {
				if _, err := changed.EntryFor(p.Name, "a"); !fault.Is(err, fault.Invalid) {
					t.Errorf("byte %d of %s as an entry: %v", offset, p.Name, err)
				}
			}
		}
	}
}

// withRoot returns an update with a root of these compressed bytes, which its signer says
// unpack to what is wanted.
func withRoot(t testing.TB, k api.PrivateKey, packed, unpacked []byte) []byte {
	t.Helper()
	var contents []byte
	m := updatefile.Manifest{Family: "gatehouse-arm64", Version: "1.3.0", Schema: 9}
	content := func(b []byte) updatefile.Content {
		return updatefile.Content{Size: int64(len(b)), SHA256: sha256.Sum256(b)}
	}
	for _, name := range []updatefile.PartName{"vmlinuz", "initrd", "entry", "shell-entry", "root"} {
		p, text := updatefile.Part{Name: name}, []byte(name)
		if name == updatefile.Root {
			c := content(unpacked)
			p.Unpacked, text = &c, packed
		}
		p.Content, contents = content(text), append(contents, text...)
		m.Parts = append(m.Parts, p)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(sealed(k, text), contents...)
}

func compressed(t testing.TB, content []byte, options ...zstd.EOption) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(content, nil)
}

// What unpacks to more than the manifest says is never unpacked further, and a stream
// that wants the memory of a board is refused.
func TestFile_Unpack_bombs(t *testing.T) {
	k := key(t, "release")
	block := noise(4096)
	for name, packed := range map[string][]byte{
		"a bomb":           compressed(t, make([]byte, 64<<20)),
		"a bomb behind":    append(compressed(t, block), compressed(t, make([]byte, 64<<20))...),
		"a huge window":    compressed(t, slices.Concat(block, make([]byte, 20<<20)), zstd.WithWindowSize(16<<20), zstd.WithSingleSegment(false)),
		"no stream":        noise(500),
		"half a stream":    compressed(t, block)[:2000],
		"junk behind":      append(compressed(t, block), noise(50)...),
		"an empty root":    compressed(t, nil, zstd.WithZeroFrames(true)),
		"the wrong length": compressed(t, block[:100]),
	} {
		if err := whole(t, withRoot(t, k, packed, block), ring(t, k)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := whole(t, withRoot(t, k, compressed(t, block), block), ring(t, k)); err != nil {
		t.Errorf("the control: %v", err)
	}
}

func TestReadKeys(t *testing.T) {
	k, other := key(t, "release"), key(t, "next")
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "update-keys")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys, err := updatefile.ReadKeys(write("# of this image\n\n" + k.Public().String() + "\r\n" + other.Public().String()))
	if err != nil || !keys.Trusts(k.Public()) || !keys.Trusts(other.Public()) || keys.Len() != 2 {
		t.Errorf("%v, %v", keys.IDs(), err)
	}
	for name, path := range map[string]string{
		"an empty file": write("# none\n"),
		"no file":       filepath.Join(t.TempDir(), "none"),
	} {
		if keys, err := updatefile.ReadKeys(path); err != nil || keys.Len() != 0 {
			t.Errorf("%s: %v, %v", name, keys.IDs(), err)
		}
	}
	for name, path := range map[string]string{
		"no key":     write("release\n"),
		"a folder":   t.TempDir(),
		"a long one": write(strings.Repeat("#", 70<<10)),
	} {
		if _, err := updatefile.ReadKeys(path); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever is changed in a file, and wherever it is cut, it is refused with a sentence.
func FuzzOpen(f *testing.F) {
	k := key(f, "release")
	keys := ring(f, k)
	good := pack(f, release("1.3.0"), k)
	f.Add(good)
	for _, cut := range []int{0, 10, 19, 50, 130, 400, 1000, len(good) - 1} {
		f.Add(good[:cut])
	}
	f.Add(handmade(f, k, good, func(m map[string]any) { maps.DeleteFunc(m, func(string, any) bool { return true }) }))
	f.Fuzz(func(t *testing.T, raw []byte) {
		switch err := whole(t, raw, keys); {
		case bytes.Equal(raw, good):
			if err != nil {
				t.Errorf("the update itself: %v", err)
			}
		case err == nil && !bytes.HasSuffix(raw, good[200:]):
			t.Error("another file was accepted")
		case err != nil && (!fault.Is(err, fault.Invalid) || strings.ContainsAny(fault.Sentence(err), "\n\r")):
			t.Errorf("refused with %q", err)
		}
	})
}

// Whatever a trusted key has signed as the root, unpacking it ends with the size of the
// manifest.
func FuzzUnpack(f *testing.F) {
	k := key(f, "release")
	keys, block := ring(f, k), noise(4096)
	f.Add(compressed(f, block))
	f.Add(compressed(f, make([]byte, 1<<20)))
	f.Fuzz(func(t *testing.T, packed []byte) {
		if len(packed) == 0 {
			return
		}
		file, err := open(withRoot(t, k, packed, block), keys)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := file.Unpack()
		if err != nil {
			t.Fatal(err)
		}
		defer unpacked.Close()
		n, err := io.Copy(io.Discard, unpacked)
		if n > 4096 || err == nil && n != 4096 || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}
