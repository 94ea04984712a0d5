package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/install/updatefile"
)

// What the images of this test have that those of users have not: a key of the test, the
// certificate of its server, and a shell on the console at each start.
const shellOption = " gatehouse.shell"

// workshop makes update files from the parts of the image.
type workshop struct {
	parts   string // the folder of the image's
	folder  string // of the update files
	version string // of the image
	key     api.PrivateKey
	keys    string // the file with its public half
	next    int    // the number of the next version
	good    *updatefile.File
	whole   *os.File
}

// variant is how an update differs from the good one.
type variant struct {
	entry  func(string) string // changes the entries
	initrd func([]byte) []byte
	kernel func([]byte) []byte
	// change changes the manifest before it is signed
	change func(*updatefile.Manifest)
	key    *api.PrivateKey // that signs; nil: the one that the image trusts
}

// openWorkshop reads the parts of the image.
func (t *trial) openWorkshop() error {
	w := &workshop{parts: filepath.Join(filepath.Dir(t.image), "parts"), folder: filepath.Join(t.dir, "updates")}
	if err := os.Mkdir(w.folder, 0o755); err != nil {
		return err
	}
	entry, err := os.ReadFile(filepath.Join(w.parts, "entry"))
	if err != nil {
		return fmt.Errorf("the parts of the image: %w", err)
	}
	found := regexp.MustCompile(`(?m)^version (\S+)$`).FindSubmatch(entry)
	if found == nil {
		return errors.New("the entry of the image has no version")
	}
	w.version = string(found[1])
	t.workshop = w
	if w.key, err = api.Generate("test"); err != nil {
		return err
	}
	w.keys = filepath.Join(t.dir, "update-keys")
	return os.WriteFile(w.keys, []byte(w.key.Public().String()+"\n"), 0o600)
}

// nextVersion returns a version that is newer than all before.
func (w *workshop) nextVersion() string {
	w.next++
	return fmt.Sprintf("%s+t%d", w.version, w.next)
}

// adapt makes the disk of the image one of this test.
func (t *trial) adapt(ctx context.Context) error {
	all, err := t.partitions(ctx)
	if err != nil {
		return err
	}
	root := fmt.Sprintf("%s?offset=%d", t.disk, all["root-a"].start)
	bundle := filepath.Join(t.dir, "ca-certificates.crt")
	if err := command(ctx, "debugfs", "-R", "dump "+authorities+" "+bundle, root); err != nil {
		return err
	}
	if err := appendTo(bundle, t.authority); err != nil {
		return err
	}
	if err := replaceInRoot(ctx, root, map[string]string{updatefile.KeysFile: t.workshop.keys, authorities: bundle}); err != nil {
		return err
	}
	for _, name := range []string{"loader/entries/gatehouse-a.conf"} {
		text, err := t.readBoot(ctx, name)
		if err != nil {
			return err
		}
		text = withShell(strings.TrimRight(text, "\n") + "\n")
		file := filepath.Join(t.dir, "entry.conf")
		if err := os.WriteFile(file, []byte(text+strings.Repeat("\n", 512-len(text))), 0o600); err != nil {
			return err
		}
		if err := t.putOnBoot(ctx, file, name); err != nil {
			return err
		}
	}
	return nil
}

func withShell(entry string) string {
	return regexp.MustCompile(`(?m)^options .*$`).ReplaceAllString(entry, "${0}"+shellOption)
}

// replaceInRoot replaces files in a root file system; they become those of root.
func replaceInRoot(ctx context.Context, root string, files map[string]string) error {
	script := ""
	for to, from := range files {
		mode := "0100644"
		if strings.Contains(to, "/bin/") {
			mode = "0100755"
		}
		script += fmt.Sprintf("rm %s\nwrite %s %s\nsif %s mode %s\nsif %s uid 0\nsif %s gid 0\n", to, from, to, to, mode, to, to)
	}
	cmd := exec.CommandContext(ctx, "debugfs", "-w", "-f", "-", root)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "LC_ALL=C")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if err == nil {
		for to, from := range files {
			err = errors.Join(err, sameInRoot(ctx, root, to, from))
		}
	}
	if err != nil {
		return fmt.Errorf("changing %s: %w\n%s", root, err, out)
	}
	return nil
}

func sameInRoot(ctx context.Context, root, name, file string) error {
	want, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "debugfs", "-R", "cat "+name, root)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	got, err := cmd.Output()
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%s is not the one that was written: %d bytes, want %d", name, len(got), len(want))
	}
	return err
}

// makeGood makes the update to the next version, whose database has one more migration.
func (t *trial) makeGood(ctx context.Context) (name, version string, err error) {
	w := t.workshop
	version = w.nextVersion()
	root := filepath.Join(t.dir, "root.next")
	if err := t.makeRoot(ctx, root, version); err != nil {
		return "", "", err
	}
	name = "good.update"
	return name, version, w.pack(root, version, filepath.Join(w.folder, name))
}

// makeRoot makes the root file system of a version from that of the image.
func (t *trial) makeRoot(ctx context.Context, root, version string, flags ...string) error {
	binary, release := filepath.Join(t.dir, "gatehouse.next"), filepath.Join(t.dir, "os-release")
	if err := compile(ctx, binary, version, nextSchema, []string{"GOOS=linux", "GOARCH=arm64"}, flags...); err != nil {
		return err
	}
	if err := copyFile(ctx, filepath.Join(t.workshop.parts, "root"), root); err != nil {
		return err
	}
	text, err := output(ctx, "debugfs", "-R", "cat /usr/lib/os-release", root)
	if err != nil {
		return err
	}
	_, text, _ = strings.Cut(text, "\n") // debugfs says first who it is
	text = regexp.MustCompile(`(?m)^IMAGE_VERSION=.*$`).ReplaceAllString(text, `IMAGE_VERSION="`+version+`"`)
	if err := os.WriteFile(release, []byte(text), 0o600); err != nil {
		return err
	}
	return replaceInRoot(ctx, root, map[string]string{
		"/usr/bin/gatehouse": binary, "/usr/lib/os-release": release, updatefile.KeysFile: t.workshop.keys,
	})
}

// nextSchema is the build tag with which a gateway migrates its database once more.
const nextSchema = "gatehouse_nextschema"

// compile builds the gateway.
func compile(ctx context.Context, to, version, tags string, environment []string, flags ...string) error {
	arguments := append([]string{
		"build", "-trimpath", "-buildvcs=false", "-tags", tags,
		"-ldflags", "-s -w -X main.version=" + version, "-o", to,
	}, flags...)
	build := exec.CommandContext(ctx, "go", append(arguments, "./cmd/gatehouse")...)
	build.Env = append(append(os.Environ(), "CGO_ENABLED=0"), environment...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the gateway: %w\n%s", err, out)
	}
	return nil
}

// pack packs and signs the good update, as a release does.
func (w *workshop) pack(root, version, out string) (err error) {
	files := map[updatefile.PartName]*os.File{}
	for _, name := range []updatefile.PartName{updatefile.Kernel, updatefile.Initrd, updatefile.Root} {
		path := filepath.Join(w.parts, string(name))
		if name == updatefile.Root {
			path = root
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		files[name] = file
	}
	var entries []io.ReadSeeker
	for _, name := range []updatefile.PartName{updatefile.Entry, updatefile.ShellEntry} {
		text, err := os.ReadFile(filepath.Join(w.parts, string(name)))
		if err != nil {
			return err
		}
		entries = append(entries, strings.NewReader(w.entryOf(string(text), version)))
	}
	schema, err := newestSchema()
	if err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err = updatefile.Pack(file, updatefile.Release{
		Family: "gatehouse-arm64", Version: version, Schema: schema + 1, Time: time.Now(),
		Kernel: files[updatefile.Kernel], Initrd: files[updatefile.Initrd], Entry: entries[0], ShellEntry: entries[1],
		Root: files[updatefile.Root], Scratch: w.folder,
	}, w.key); err != nil {
		return err
	}
	return w.open(out)
}

// open opens the good update.
func (w *workshop) open(path string) (err error) {
	if w.whole, err = os.Open(path); err != nil {
		return err
	}
	info, err := w.whole.Stat()
	if err != nil {
		return err
	}
	keys, err := updatefile.ReadKeys(w.keys)
	if err == nil {
		w.good, err = updatefile.Open(w.whole, info.Size(), keys)
	}
	return err
}

// entryOf returns an entry for another version, with a shell.
func (w *workshop) entryOf(entry, version string) string {
	entry = strings.ReplaceAll(entry, w.version, version)
	if !strings.Contains(entry, shellOption) {
		entry = withShell(entry)
	}
	return entry
}

// newestSchema returns the schema of the database of this tree.
func newestSchema() (newest int, err error) {
	all, err := filepath.Glob("internal/record/sqlite/migrations/[0-9]*.sql")
	if len(all) == 0 {
		err = errors.Join(err, errors.New("there are no migrations: run this in the root of the tree"))
	}
	return len(all), err
}

// makeVariant makes an update with the root of the good one.
func (w *workshop) makeVariant(name string, v variant) (version string, err error) {
	version = w.nextVersion()
	m := w.good.Manifest
	m.Version = version
	parts := map[updatefile.PartName][]byte{}
	for _, p := range m.Parts[:len(m.Parts)-1] { // the root is the last
		content, err := io.ReadAll(w.good.Part(p.Name))
		if err != nil {
			return "", err
		}
		switch p.Name {
		case updatefile.Entry, updatefile.ShellEntry:
			text := strings.ReplaceAll(string(content), w.good.Manifest.Version, version)
			if v.entry != nil {
				text = v.entry(text)
			}
			content = []byte(text)
		case updatefile.Initrd:
			if v.initrd != nil {
				content = v.initrd(content)
			}
		case updatefile.Kernel:
			if v.kernel != nil {
				content = v.kernel(content)
			}
		}
		parts[p.Name] = content
	}
	m.Parts = append([]updatefile.Part(nil), m.Parts...)
	for i, p := range m.Parts {
		if content, ok := parts[p.Name]; ok {
			m.Parts[i].Content = updatefile.Content{Size: int64(len(content)), SHA256: sha256.Sum256(content)}
		}
	}
	if v.change != nil {
		v.change(&m)
	}
	key := w.key
	if v.key != nil {
		key = *v.key
	}
	file, err := os.Create(filepath.Join(w.folder, name))
	if err != nil {
		return "", err
	}
	defer file.Close()
	if _, err := file.Write(seal(m, key)); err != nil {
		return "", err
	}
	for _, p := range m.Parts[:len(m.Parts)-1] {
		if _, err := file.Write(parts[p.Name]); err != nil {
			return "", err
		}
	}
	_, err = io.Copy(file, w.good.Part(updatefile.Root))
	return m.Version, err
}

// seal returns what stands before the parts (package updatefile).
func seal(m updatefile.Manifest, key api.PrivateKey) []byte {
	const first = "gatehouse-update 1\n"
	text, _ := json.Marshal(m) // of strings and numbers
	signature := key.SignText(append([]byte(first), text...))
	return fmt.Appendf(nil, "%s%s %s\nmanifest %d\n%s", first, key.Public().ID, base64.StdEncoding.EncodeToString(signature), len(text), text)
}

// offer serves the files; below /cut each answer ends in the middle.
func (t *trial) offer() http.Handler {
	files := http.FileServer(http.Dir(t.workshop.folder))
	mux := http.NewServeMux()
	mux.Handle("/", files)
	mux.HandleFunc("/cut/", func(w http.ResponseWriter, r *http.Request) {
		file, err := os.Open(filepath.Join(t.workshop.folder, filepath.Base(r.URL.Path)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(info.Size()))
		_, _ = io.CopyN(w, file, 5<<20)
		panic(http.ErrAbortHandler)
	})
	return mux
}
