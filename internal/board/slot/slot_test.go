package slot_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/board/durable"
	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/test/slottest"
)

// open opens a folder as a board.
func open(t *testing.T, folder slottest.Board) *slot.Board {
	t.Helper()
	b, err := slot.OpenAt(folder.Root)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// refused fails unless the error is of that kind and says so.
func refused(t *testing.T, err error, kind fault.Kind, words string) {
	t.Helper()
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), words) {
		t.Errorf("the error is %v, want kind %d with %q", err, kind, words)
	}
}

// tree returns the content of the boot partition.
func tree(t *testing.T, folder slottest.Board) map[string]string {
	t.Helper()
	found := map[string]string{}
	boot := os.DirFS(folder.Path("boot/efi"))
	walk(t, boot, ".", found)
	return found
}

func TestOpenAt(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	b := open(t, folder)
	if b.Version() != "1.2.3" || b.Family() != "gatehouse-arm64" || b.Running() != slot.A || b.Boot() != folder.Path("boot/efi") {
		t.Errorf("%+v", b)
	}
	folder.Start("b")
	if got := open(t, folder).Running(); got != slot.B || got.Other() != slot.A || slot.A.Other() != slot.B {
		t.Errorf("slot %s runs", got)
	}
}

func TestOpenAt_otherSystems(t *testing.T) {
	if _, err := slot.OpenAt(t.TempDir()); !fault.Is(err, fault.NotFound) {
		t.Errorf("of an empty folder: %v", err)
	}
	for _, c := range []struct {
		path, content string
		kind          fault.Kind
	}{
		{"usr/lib/os-release", "ID=debian\n", fault.NotFound},
		{"usr/lib/os-release", "IMAGE_ID=gatehouse\n", fault.Conflict},
		{"usr/lib/gatehouse-image/family", "", fault.Conflict},
		{"proc/cmdline", "root=UUID=1234 quiet", fault.Conflict},
		{"proc/cmdline", "gatehouse.slot=c", fault.Conflict},
	} {
		folder := slottest.New(t, "1.2.3")
		folder.Write(c.path, c.content)
		if _, err := slot.OpenAt(folder.Root); !fault.Is(err, c.kind) {
			t.Errorf("with %q in %s: %v", c.content, c.path, err)
		}
	}
}

func TestBoard_Root(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	for n, device := range map[slot.Name]string{slot.A: "dev/mmcblk0p2", slot.B: "dev/mmcblk0p3"} {
		path, size, err := open(t, folder).Root(n)
		if err != nil || path != folder.Path(device) || size != slottest.RootSize {
			t.Errorf("slot %s: %s, %d, %v", n, path, size, err)
		}
	}
}

// Another disk with partitions of the same names is of no interest, and a root
// that is not that of the slot that runs is refused: it would be written to.
func TestBoard_Root_otherDisks(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	folder.Write("sys/devices/usb/block/sda/sda3/uevent", "MAJOR=8\nMINOR=3\nDEVNAME=sda3\nPARTNAME=root-b\n")
	folder.Write("sys/devices/usb/block/sda/sda3/size", "8\n")
	if path, _, err := open(t, folder).Root(slot.B); err != nil || path != folder.Path("dev/mmcblk0p3") {
		t.Errorf("%s, %v", path, err)
	}
	folder.Write("proc/cmdline", "gatehouse.slot=b")
	if path, _, err := open(t, folder).Root(slot.A); err == nil {
		t.Errorf("%s is mounted and was returned as that of the other slot", path)
	}
	folder.Start("a")
	folder.Write("sys/devices/platform/soc/mmc0/block/mmcblk0/mmcblk0p4/uevent", "MAJOR=179\nMINOR=4\nDEVNAME=mmcblk0p4\nPARTNAME=root-b\n")
	if path, _, err := open(t, folder).Root(slot.B); err == nil {
		t.Errorf("%s was returned, one of two", path)
	}
}

func TestBoard_Change(t *testing.T) {
	board := slottest.New(t, "1.2.3")
	b := open(t, board)
	var seen []string
	b.SetRemount(func(folder string, readOnly bool) error {
		if folder != b.Boot() {
			t.Errorf("%s is mounted anew", folder)
		}
		seen = append(seen, map[bool]string{true: "ro", false: "rw"}[readOnly])
		return nil
	})
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		seen = nil
		err := b.Change(func() error {
			seen = append(seen, "change")
			return want
		})
		if !errors.Is(err, want) || !slices.Equal(seen, []string{"rw", "change", "ro"}) {
			t.Errorf("%v, %v", seen, err)
		}
	}
	board.Write("run/gatehouse-boot-partition/.keep", "")
	if err := b.Change(func() error { return nil }); err != nil || slices.Contains(seen[3:], "ro") {
		t.Errorf("while a site file is applied: %v, %v", seen, err)
	}
	if seen = nil; b.Protect() != nil || len(seen) > 0 {
		t.Errorf("it is closed to a site file: %v", seen)
	}
	if err := os.RemoveAll(board.Path("run/gatehouse-boot-partition")); err != nil {
		t.Fatal(err)
	}
	if b.Protect() != nil || !slices.Equal(seen, []string{"ro"}) {
		t.Errorf("it is not closed: %v", seen)
	}
	stuck := errors.New("busy")
	b.SetRemount(func(_ string, readOnly bool) error {
		if readOnly {
			return stuck
		}
		return nil
	})
	if err := b.Change(func() error { return broken }); !errors.Is(err, broken) || !errors.Is(err, stuck) {
		t.Errorf("not both errors: %v", err)
	}
	b.SetRemount(func(string, bool) error { return stuck })
	if err := b.Change(func() error { t.Error("called"); return nil }); !errors.Is(err, stuck) {
		t.Errorf("of a partition that stays read-only: %v", err)
	}
}

// What is to be tried next is not tried after an error that came when it was set already.
func TestBoard_TryOnce(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	folder.Fill("b", "1.3.0")
	b := open(t, folder)
	stuck := errors.New("busy")
	calls := 0
	b.SetRemount(func(string, bool) error {
		if calls++; calls == 2 {
			return stuck
		}
		return nil
	})
	if err := b.TryOnce(slot.B); !errors.Is(err, stuck) {
		t.Errorf("an error that nobody sees: %v", err)
	}
	if shot, err := b.OneShot(); err != nil || shot != "" {
		t.Errorf("after it, slot %q is tried: %v", shot, err)
	}
	if err := b.TryOnce(slot.B); err != nil {
		t.Error(err)
	}
	calls = 10
	for range 2 {
		if err := b.DropOneShot(); err != nil {
			t.Error(err)
		}
	}
	if shot, err := b.OneShot(); err != nil || shot != "" || calls != 12 {
		t.Errorf("slot %q is tried: %v; the boot partition was mounted anew %d times", shot, err, calls-10)
	}
}

// A card with the same image in a second slot, or a boot partition that was not mounted.
func TestBoard_Change_otherDisk(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	for _, c := range []struct {
		boot string
		kind fault.Kind
	}{{"30 22 8:1 / /boot/efi rw - vfat /dev/sda1 rw\n", fault.Conflict}, {"", fault.Internal}} {
		folder.Write("proc/self/mountinfo", "22 1 179:2 / / ro - ext4 /dev/mmcblk0p2 ro\n"+c.boot)
		err := open(t, folder).Change(func() error { t.Error("called"); return nil })
		if !fault.Is(err, c.kind) {
			t.Errorf("with %q: %v", c.boot, err)
		}
	}
}

func TestBoard_Installed(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	b := open(t, folder)
	for n, want := range map[slot.Name]string{slot.A: "1.2.3", slot.B: ""} {
		if got, err := b.Installed(n); err != nil || got != want {
			t.Errorf("slot %s: %q, %v", n, got, err)
		}
	}
	for _, missing := range []string{"gatehouse/b/vmlinuz", "gatehouse/b/initrd", "loader/entries/gatehouse-b.conf"} {
		folder.Fill("b", "1.3.0")
		if got, err := b.Installed(slot.B); err != nil || got != "1.3.0" {
			t.Errorf("%q, %v", got, err)
		}
		if err := os.Remove(b.Boot() + "/" + missing); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Installed(slot.B); err != nil || got != "" {
			t.Errorf("without %s: %q, %v", missing, got, err)
		}
	}
}

// An update as the engine writes it, with both kinds of firmware.
func TestBoard_update(t *testing.T) {
	for name, firmware := range map[string]func(slottest.Board){"UEFI": slottest.Board.UEFI, "U-Boot": slottest.Board.UBoot} {
		folder := slottest.New(t, "1.2.3")
		firmware(folder)
		folder.Fill("b", "1.1.0")
		old := tree(t, folder)
		folder.Write("boot/efi/FSCK0000.REC", "a kernel whose writing was cut")
		b := open(t, folder)
		if err := errors.Join(b.SetOneShot(slot.B), b.Clear(slot.B)); err != nil {
			t.Fatal(err)
		}
		if version, err := b.Installed(slot.B); err != nil || version != "" {
			t.Errorf("%s: %q is left, %v", name, version, err)
		}
		if n, err := b.OneShot(); err != nil || n != "" {
			t.Errorf("%s: the next start tries %q, %v", name, n, err)
		}
		cleared := tree(t, folder)
		for path, want := range map[string]string{
			"gatehouse/b/vmlinuz": "", "gatehouse/b/initrd": "",
			"loader/entries/gatehouse-b.conf":       strings.Repeat("\n", slot.EntrySize),
			"loader/entries/gatehouse-b-shell.conf": strings.Repeat("\n", slot.EntrySize),
		} {
			if cleared[path] != want {
				t.Errorf("%s: %s has %q", name, path, cleared[path])
			}
		}
		kernel, initrd := bytes.Repeat([]byte("kernel"), 1<<18), []byte("initrd")
		entry, shell := []byte("version 1.3.0\nlinux /gatehouse/b/vmlinuz\n"), []byte("shell")
		if err := errors.Join(
			b.WriteFile(slot.B, slot.Kernel, bytes.NewReader(kernel), int64(len(kernel)), sha256.Sum256(kernel)),
			b.WriteFile(slot.B, slot.Initrd, bytes.NewReader(initrd), int64(len(initrd)), sha256.Sum256(initrd)),
			b.WriteEntries(slot.B, entry, shell), b.SetOneShot(slot.B),
		); err != nil {
			t.Fatal(err)
		}
		if version, err := b.Installed(slot.B); err != nil || version != "1.3.0" {
			t.Errorf("%s: %q, %v", name, version, err)
		}
		if n, err := b.OneShot(); err != nil || n != slot.B {
			t.Errorf("%s: the next start tries %q, %v", name, n, err)
		}
		got := tree(t, folder)
		for path, want := range map[string]string{
			"gatehouse/b/vmlinuz": string(kernel), "gatehouse/b/initrd": string(initrd),
			"loader/entries/gatehouse-b.conf":       string(entry) + strings.Repeat("\n", slot.EntrySize-len(entry)),
			"loader/entries/gatehouse-b-shell.conf": string(shell) + strings.Repeat("\n", slot.EntrySize-len(shell)),
		} {
			if got[path] != want {
				t.Errorf("%s: %s has %d bytes, want %d", name, path, len(got[path]), len(want))
			}
			delete(got, path)
			delete(old, path)
		}
		delete(got, "ubootefi.var")
		if !equal(got, old) {
			t.Errorf("%s: another file has changed: %v, before %v", name, got, old)
		}
	}
}

// What starts is never written to: neither the slot that runs nor the default, which are
// two while one is on trial or was chosen in the menu.
func TestBoard_refusals(t *testing.T) {
	for name, write := range map[string]func(*slot.Board, slot.Name) error{
		"Clear": (*slot.Board).Clear,
		"WriteFile": func(b *slot.Board, n slot.Name) error {
			return b.WriteFile(n, slot.Kernel, strings.NewReader("x"), 1, sha256.Sum256([]byte("x")))
		},
		"WriteEntries": func(b *slot.Board, n slot.Name) error { return b.WriteEntries(n, nil, nil) },
	} {
		folder := slottest.New(t, "1.2.3")
		folder.Fill("b", "1.3.0")
		folder.Start("b")
		before := tree(t, folder)
		for _, n := range []slot.Name{slot.A, slot.B} {
			refused(t, write(open(t, folder), n), fault.Conflict, "Slot "+string(n)+" is not written to")
			if !equal(before, tree(t, folder)) {
				t.Errorf("%s changed slot %s", name, n)
			}
		}
	}
}

// What is empty is never tried or made the default.
func TestBoard_refusals_empty(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	before := tree(t, folder)
	b := open(t, folder)
	refused(t, b.SetDefault(slot.B), fault.Conflict, "Slot b is empty")
	refused(t, b.SetOneShot(slot.B), fault.Conflict, "Slot b is empty")
	if n, err := b.OneShot(); err != nil || n != "" || !equal(before, tree(t, folder)) {
		t.Errorf("something has changed: %q, %v", n, err)
	}
}

func TestBoard_WriteFile_refusals(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	b := open(t, folder)
	before := tree(t, folder)
	good := sha256.Sum256([]byte("kernel"))
	for _, c := range []struct {
		content string
		size    int64
		kind    fault.Kind
	}{
		{"kernel", 5, fault.Invalid},
		{"kernel", 7, fault.Invalid},
		{"kernex", 6, fault.Invalid},
		{"kernel", 1 << 60, fault.Unavailable},
	} {
		if err := b.WriteFile(slot.B, slot.Kernel, strings.NewReader(c.content), c.size, good); !fault.Is(err, c.kind) {
			t.Errorf("%q as %d bytes: %v", c.content, c.size, err)
		}
		if !equal(before, tree(t, folder)) {
			t.Errorf("%q as %d bytes left something", c.content, c.size)
		}
	}
	broken := errors.New("the stream broke off")
	if err := b.WriteFile(slot.B, slot.Kernel, failing{broken}, 6, good); !errors.Is(err, broken) || !equal(before, tree(t, folder)) {
		t.Errorf("of a stream that breaks off: %v", err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{{nil, "worn out"}, {broken, broken.Error()}} {
		b.SetReread(func(string, int64) ([32]byte, error) { return [32]byte{1}, c.err })
		err := b.WriteFile(slot.B, slot.Kernel, strings.NewReader("kernel"), 6, good)
		if err == nil || !strings.Contains(err.Error(), c.want) || !equal(before, tree(t, folder)) {
			t.Errorf("of a card that keeps something else: %v", err)
		}
	}
	for _, long := range [][2]int{{slot.EntrySize + 1, 1}, {1, slot.EntrySize + 1}} {
		err := b.WriteEntries(slot.B, make([]byte, long[0]), make([]byte, long[1]))
		if !fault.Is(err, fault.Invalid) || !equal(before, tree(t, folder)) {
			t.Errorf("of entries of %d bytes: %v", long, err)
		}
	}
}

// failing is a stream that breaks off.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestBoard_SetDefault(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	folder.Fill("b", "1.3.0")
	b := open(t, folder)
	for _, form := range []string{
		"timeout 3\neditor no\ndefault gatehouse-%s.conf\n", "default gatehouse-%s-shell.conf",
		"timeout 3\r\neditor no\r\ndefault gatehouse-%s.conf \t\r\n",
	} {
		folder.Write("boot/efi/loader/loader.conf", fmt.Sprintf(form, slot.A))
		for _, n := range []slot.Name{slot.B, slot.B, slot.A} {
			if err := b.SetDefault(n); err != nil {
				t.Fatal(err)
			}
			if got, err := b.Default(); err != nil || got != n {
				t.Errorf("the default is %q, %v", got, err)
			}
			if got, want := folder.Read("boot/efi/loader/loader.conf"), fmt.Sprintf(form, n); got != want {
				t.Errorf("loader.conf has %q, want %q", got, want)
			}
		}
	}
}

func TestBoard_SetDefault_otherForms(t *testing.T) {
	for _, text := range []string{
		"", "default gatehouse.conf\n", "default gatehouse-c.conf\n", "default  gatehouse-a.conf\n", " default gatehouse-a.conf\n", "default gatehouse-a.conf\rdefault gatehouse-a.conf\n",
		"timeout 3\rdefault gatehouse-b.conf\ndefault gatehouse-a.conf\n",
		"default gatehouse-a.conf\ndefault gatehouse-a.conf\n", "default gatehouse-a.conf\n\tdefault gatehouse-b.conf\n",
		"default gatehouse-a*\n", "default gatehouse-a-other.conf\n", "#default gatehouse-a.conf\n",
		"default gatehouse-a.conf\n" + strings.Repeat("#", 64<<10),
	} {
		folder := slottest.New(t, "1.2.3")
		folder.Fill("b", "1.3.0")
		folder.Write("boot/efi/loader/loader.conf", text)
		b := open(t, folder)
		if n, err := b.Default(); err == nil {
			t.Errorf("the default of %q is %s", text, n)
		}
		if err := b.SetDefault(slot.B); err == nil || folder.Read("boot/efi/loader/loader.conf") != text {
			t.Errorf("%q was changed, %v", text, err)
		}
	}
}

// watched calls look at each of its reads.
type watched struct {
	io.Reader
	look func()
}

func (w watched) Read(p []byte) (int, error) {
	w.look()
	return w.Reader.Read(p)
}

// A kernel reaches the card piece by piece: a commit of the gateway waits for what the card
// has queued.
func TestBoard_WriteFile_flushes(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	kernel, most := bytes.Repeat([]byte("kernel"), 1<<18), int64(0)
	content := watched{bytes.NewReader(kernel), func() { most = max(most, folder.Waiting("boot/efi/gatehouse/b/vmlinuz")) }}
	if err := open(t, folder).WriteFile(slot.B, slot.Kernel, content, int64(len(kernel)), sha256.Sum256(kernel)); err != nil {
		t.Fatal(err)
	}
	if most > 2*durable.FlushSize {
		t.Errorf("%d of %d bytes waited", most, len(kernel))
	}
}
