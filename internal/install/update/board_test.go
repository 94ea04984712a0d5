package update_test

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/install/update"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/site"
	"gatehouse/internal/test/slottest"
	"gatehouse/internal/web/adminapi"
)

// disk is where temporary folders are by themselves.
var disk = os.TempDir()

// TestMain keeps the boards in memory where there is room for them: no test but that of the
// flushes asks what has reached a disk, and a disk takes most of the time.
func TestMain(m *testing.M) {
	const memory = "/dev/shm"
	var fs unix.Statfs_t
	if unix.Statfs(memory, &fs) == nil && fs.Type == unix.TMPFS_MAGIC && fs.Bavail*uint64(fs.Bsize) > 1<<30 && unix.Access(memory, unix.W_OK) == nil {
		_ = os.Setenv("TMPDIR", memory)
	}
	os.Exit(m.Run())
}

// releaseKey is the key that images of the tests trust.
var releaseKey = sync.OnceValue(func() api.PrivateKey {
	key, err := api.Generate("release")
	if err != nil {
		panic(err)
	}
	return key
})

// packed has the updates that were packed already, by version.
var packed sync.Map

// board is a board with two slots, the gateway on it and the keys of its image.
type board struct {
	slottest.Board
	t        testing.TB
	key      api.PrivateKey
	gateway  gateway
	restarts int
	stuck    error // of a restart
	wakes    int
	uptime   time.Duration
	synced   bool
	seen     []site.UpdateStatus // what was shown
	onShow   func(site.UpdateStatus)
	schema   int
	http     func(*update.Config)
}

func newBoard(t testing.TB) *board {
	t.Helper()
	b := &board{Board: slottest.New(t, "1.2.3"), t: t, key: releaseKey(), schema: 9, synced: true}
	b.gateway = gateway{ready: true, zone: "Europe/Berlin", trusted: true, now: time.Now}
	b.trust(b.key)
	b.Write("var/lib/gatehouse/update/.keep", "")
	b.Write("dev/mmcblk0p2", string(noise(1, slottest.RootSize))) // what runs
	return b
}

// trust makes the image one that trusts these keys alone.
func (b *board) trust(keys ...api.PrivateKey) {
	text := "# the keys of this image\n"
	for _, k := range keys {
		text += k.Public().String() + "\n"
	}
	b.Write("usr/lib/gatehouse-image/update-keys", text)
}

// updater returns an updater of the board, as a new process has it.
func (b *board) updater() *update.Updater {
	b.t.Helper()
	opened, err := slot.OpenAt(b.Root)
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := update.Config{
		Board: opened, Exchange: slot.Exchange{Root: b.Root}, Folder: b.Path("var/lib/gatehouse-update"),
		Keys: b.Path("usr/lib/gatehouse-image/update-keys"), Schema: b.schema, Gateway: &b.gateway, Log: slog.New(slog.DiscardHandler),
		Restart: func(context.Context) error { b.restarts++; return b.stuck },
		Wake:    func(context.Context) error { b.wakes++; return nil },
		Serves:  func(context.Context, adminapi.Status) error { return b.gateway.serves },
		Now:     time.Now, Uptime: func() time.Duration { return b.uptime }, Synchronised: func() bool { return b.synced },
		Progress: func(s site.UpdateStatus) {
			b.seen = append(b.seen, s)
			if b.onShow != nil {
				b.onShow(s)
			}
		},
	}
	if b.http != nil {
		b.http(&cfg)
	}
	return update.New(cfg)
}

// install updates from a file.
func (b *board) install(path string) error {
	_, err := b.updater().Update(b.t.Context(), update.Order{From: update.Source{Path: path}})
	return err
}

// settle is what happens before the gateway starts.
func (b *board) settle() {
	b.t.Helper()
	if err := b.updater().Settle(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// restart starts the slot of the one shot, else the default, as the boot loader does.
func (b *board) restart() string {
	b.t.Helper()
	opened, err := slot.OpenAt(b.Root)
	if err != nil {
		b.t.Fatal(err)
	}
	next, err := opened.OneShot()
	if err == nil && next == "" {
		next, err = opened.Default()
	} else if err == nil {
		err = opened.ClearOneShot()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.run(string(next))
	return string(next)
}

// run makes a slot the one that runs, with the version that its entry has.
func (b *board) run(letter string) {
	b.t.Helper()
	b.Start(letter)
	opened, err := slot.OpenAt(b.Root)
	if err != nil {
		b.t.Fatal(err)
	}
	version, err := opened.Installed(slot.Name(letter))
	if err != nil {
		b.t.Fatal(err)
	}
	b.Write("usr/lib/os-release", "IMAGE_ID=gatehouse\nIMAGE_VERSION="+version+"\n")
}

// status returns what everyone may read.
func (b *board) status() site.UpdateStatus {
	b.t.Helper()
	s, err := slot.Exchange{Root: b.Root}.ReadStatus()
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// oneShot returns the slot that the next start tries.
func (b *board) oneShot() slot.Name {
	b.t.Helper()
	opened, err := slot.OpenAt(b.Root)
	if err != nil {
		b.t.Fatal(err)
	}
	shot, err := opened.OneShot()
	if err != nil {
		b.t.Fatal(err)
	}
	return shot
}

// running returns what the board starts from now: the root, kernel and entries of slot a,
// and loader.conf.
func (b *board) running() map[string]string {
	b.t.Helper()
	found := map[string]string{}
	for _, path := range []string{
		"dev/mmcblk0p2", "boot/efi/gatehouse/a/vmlinuz", "boot/efi/gatehouse/a/initrd", "boot/efi/loader/loader.conf",
		"boot/efi/loader/entries/gatehouse-a.conf", "boot/efi/loader/entries/gatehouse-a-shell.conf",
	} {
		found[path] = b.Read(path)
	}
	return found
}

// untouched fails unless the board starts what it did before, with no one shot.
func (b *board) untouched(before map[string]string) {
	b.t.Helper()
	if now := b.running(); !maps.Equal(now, before) {
		b.t.Error("what runs was changed")
	}
	if shot := b.oneShot(); shot != "" || b.restarts != 0 {
		b.t.Errorf("the one shot is %q after %d restarts", shot, b.restarts)
	}
}

// gateway is the gateway on the board.
type gateway struct {
	ready   bool
	err     error
	serves  error
	zone    string
	trusted bool
	now     func() time.Time
	online  []site.StationID
	offline []site.StationID
	started time.Time
	asked   func()
	lists   func()
	unlists error // of Stations
}

func (g *gateway) Status(context.Context) (adminapi.Status, error) {
	if g.asked != nil {
		g.asked()
	}
	if g.err != nil {
		return adminapi.Status{}, g.err
	}
	s := adminapi.Status{Started: site.At(g.started), Ready: g.ready, TimeZone: g.zone, Clock: adminapi.ClockStatus{Now: site.At(g.now()), Trusted: g.trusted}}
	if !g.ready {
		s.Conditions = []health.Condition{{Severity: health.Fatal, Summary: "The database cannot be written"}}
	}
	return s, nil
}

func (g *gateway) Stations(context.Context) ([]adminapi.Station, error) {
	var all []adminapi.Station
	if g.lists != nil {
		g.lists()
	}
	for _, id := range g.online {
		all = append(all, adminapi.Station{StationState: site.StationState{ID: id, Status: site.Online}})
	}
	for _, id := range g.offline {
		all = append(all, adminapi.Station{StationState: site.StationState{ID: id}})
	}
	return all, cmp.Or(g.err, g.unlists)
}

var errDown = fault.New(fault.Unavailable, "The gateway does not answer")

// noise returns n bytes that look random.
func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// rootOf is the root file system of a version, of 2 MiB and a little.
func rootOf(version string) []byte {
	return slices.Concat(noise(7, 1<<20), make([]byte, 1<<20), noise(version[len(version)-1], 8192))
}

const entryText = "title Gatehouse VERSION\nversion VERSION\nsort-key gatehouse\nlinux /gatehouse/@SLOT@/vmlinuz\n" +
	"initrd /gatehouse/@SLOT@/initrd\noptions console=tty0 gatehouse.slot=@SLOT@\n"

func release(version string) updatefile.Release {
	entry := strings.ReplaceAll(entryText, "VERSION", version)
	return updatefile.Release{
		Family: "gatehouse-arm64", Version: version, Schema: 10, Time: time.Unix(1795000000, 0),
		Kernel: strings.NewReader("kernel of " + version), Initrd: strings.NewReader("initrd of " + version),
		Entry: strings.NewReader(entry), ShellEntry: strings.NewReader(entry), Root: bytes.NewReader(rootOf(version)),
	}
}

// pack returns an update that the key has signed.
func pack(t testing.TB, key api.PrivateKey, r updatefile.Release) []byte {
	t.Helper()
	r.Scratch = t.TempDir()
	var text bytes.Buffer
	if _, err := updatefile.Pack(&text, r, key); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// file writes an update of that version to a file of its own.
func (b *board) file(version string) string {
	b.t.Helper()
	return b.put(b.genuine(version))
}

// genuine returns an update that the image trusts.
func (b *board) genuine(version string) []byte {
	b.t.Helper()
	raw, found := packed.Load(version)
	if !found {
		raw, _ = packed.LoadOrStore(version, pack(b.t, releaseKey(), release(version)))
	}
	return slices.Clone(raw.([]byte))
}

func (b *board) put(raw []byte) string {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "gatehouse.update")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// holds fails unless slot b has that version, whole.
func (b *board) holds(version string) {
	b.t.Helper()
	entry := strings.ReplaceAll(strings.ReplaceAll(entryText, "VERSION", version), "@SLOT@", "b")
	for path, want := range map[string]string{
		"boot/efi/gatehouse/b/vmlinuz": "kernel of " + version, "boot/efi/gatehouse/b/initrd": "initrd of " + version,
		"boot/efi/loader/entries/gatehouse-b.conf":       entry + strings.Repeat("\n", 512-len(entry)),
		"boot/efi/loader/entries/gatehouse-b-shell.conf": entry + strings.Repeat("\n", 512-len(entry)),
	} {
		if got := b.Read(path); got != want {
			b.t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
	if root := b.Read("dev/mmcblk0p3"); !strings.HasPrefix(root, string(rootOf(version))) {
		b.t.Errorf("the root of slot b is not that of %s", version)
	}
}

// cannotStart fails if slot b could start.
func (b *board) cannotStart() {
	b.t.Helper()
	opened, err := slot.OpenAt(b.Root)
	if err != nil {
		b.t.Fatal(err)
	}
	if version, err := opened.Installed(slot.B); err != nil || version != "" {
		b.t.Errorf("slot b has version %q, %v", version, err)
	}
}
