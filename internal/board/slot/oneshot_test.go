package slot_test

import (
	"encoding/binary"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
	"gatehouse/internal/test/slottest"
)

// Where a board with UEFI keeps variables.
const (
	efivars = "sys/firmware/efi/efivars/"
	vendor  = "-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
)

// equal reports whether two trees are the same.
func equal(a, b map[string]string) bool { return maps.Equal(a, b) }

// walk adds the files below a folder to found.
func walk(t *testing.T, files fs.FS, folder string, found map[string]string) {
	t.Helper()
	err := fs.WalkDir(files, folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		found[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wide returns a text in UTF-16 with NUL.
func wide(text string) (value []byte) {
	for _, unit := range text + "\x00" {
		value = binary.LittleEndian.AppendUint16(value, uint16(unit))
	}
	return value
}

func TestBoard_oneShot_UEFI(t *testing.T) {
	folder := slottest.New(t, "1.2.3")
	folder.Fill("b", "1.3.0")
	b := open(t, folder)
	path := efivars + "LoaderEntryOneShot" + vendor
	for range 2 {
		if err := b.SetOneShot(slot.B); err != nil {
			t.Fatal(err)
		}
		if got, want := folder.Read(path), "\x07\x00\x00\x00"+string(wide("gatehouse-b.conf")); got != want {
			t.Errorf("the variable is %q, want %q", got, want)
		}
		if n, err := b.OneShot(); err != nil || n != slot.B {
			t.Errorf("the next start tries %q, %v", n, err)
		}
		protect(t, folder.Path(path)) // as efivarfs does with every variable of another start
	}
	for range 2 {
		if err := b.ClearOneShot(); err != nil {
			t.Fatal(err)
		}
		if n, err := b.OneShot(); err != nil || n != "" {
			t.Errorf("the next start tries %q, %v", n, err)
		}
	}
	if _, err := os.Stat(folder.Path("boot/efi/ubootefi.var")); err == nil {
		t.Error("there is a file for U-Boot")
	}
}

// protect makes a file immutable, where the file system and the user of the test can.
func protect(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0x10)
	t.Cleanup(func() {
		if f, err := os.Open(path); err == nil {
			_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
			_ = f.Close()
		}
	})
}

// What somebody chose in the menu counts for more than loader.conf, and ends with a
// commit.
func TestBoard_Default_chosen(t *testing.T) {
	for _, entry := range []string{"gatehouse-b.conf", "gatehouse-b-shell.conf"} {
		folder := slottest.New(t, "1.2.3")
		folder.Fill("b", "1.3.0")
		folder.Write(efivars+"LoaderEntryDefault"+vendor, "\x07\x00\x00\x00"+string(wide(entry)))
		b := open(t, folder)
		if n, err := b.Default(); err != nil || n != slot.B {
			t.Errorf("%s: the default is %q, %v", entry, n, err)
		}
		if err := b.SetDefault(slot.A); err != nil {
			t.Fatal(err)
		}
		if n, err := b.Default(); err != nil || n != slot.A {
			t.Errorf("%s: the default is %q after a commit, %v", entry, n, err)
		}
	}
}

// What no entry of ours is called is not tried.
func TestBoard_OneShot_otherEntries(t *testing.T) {
	for _, value := range []string{"", "\x07\x00\x00\x00", "\x07\x00\x00\x00" + string(wide("memtest.conf")), "\x07\x00\x00\x00g"} {
		folder := slottest.New(t, "1.2.3")
		folder.Write(efivars+"LoaderEntryOneShot"+vendor, value)
		if n, err := open(t, folder).OneShot(); err != nil || n != "" {
			t.Errorf("of %q: %q, %v", value, n, err)
		}
	}
}

// U-Boot's variables are in its file, also where the system cannot read them from its
// memory; without any firmware there are none.
func TestBoard_oneShot_firmware(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(slottest.Board) error
		file    bool
	}{
		"U-Boot":     {func(f slottest.Board) error { f.UBoot(); return nil }, true},
		"unreadable": {func(f slottest.Board) error { return os.Remove(f.Path(efivars + "LoaderFirmwareInfo" + vendor)) }, true},
		"other loader": {func(f slottest.Board) error {
			f.Write(efivars+"BootOrder-8be4df61-93ca-11d2-aa0d-00e098032b8c", "\x07\x00\x00\x00\x00\x00")
			return os.Remove(f.Path(efivars + "LoaderFirmwareInfo" + vendor))
		}, false},
	} {
		folder := slottest.New(t, "1.2.3")
		folder.Fill("b", "1.3.0")
		if err := c.prepare(folder); err != nil {
			t.Fatal(err)
		}
		b := open(t, folder)
		if err := b.SetOneShot(slot.B); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(folder.Path("boot/efi/ubootefi.var")); (err == nil) != c.file {
			t.Errorf("%s: U-Boot's file: %v", name, err)
		}
	}
	folder := slottest.New(t, "1.2.3")
	if err := os.RemoveAll(folder.Path("sys/firmware")); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, folder).OneShot()
	refused(t, err, fault.Unavailable, "not started by UEFI")
}

func TestBoard_oneShot_UBoot(t *testing.T) {
	golden, err := os.ReadFile("testdata/ubootefi.var")
	if err != nil {
		t.Fatal(err)
	}
	for name, before := range map[string]string{
		"golden": string(golden), "damaged": strings.Replace(string(golden), "world", "World", 1), "empty": "", "short": string(golden[:100]),
		"large": strings.Repeat("x", 1<<18),
	} {
		folder := slottest.New(t, "1.2.3")
		folder.UBoot()
		folder.Fill("b", "1.3.0")
		folder.Write("boot/efi/ubootefi.var", before)
		b := open(t, folder)
		if err := b.SetOneShot(slot.B); err != nil {
			t.Fatal(err)
		}
		if n, err := b.OneShot(); err != nil || n != slot.B {
			t.Errorf("%s: the next start tries %q, %v", name, n, err)
		}
		want := map[bool]int{true: 4, false: 1}[name == "golden"]
		if count, whole := slot.Variables([]byte(folder.Read("boot/efi/ubootefi.var"))); !whole || count != want {
			t.Errorf("%s: %d variables, whole: %t", name, count, whole)
		}
		if err := b.ClearOneShot(); err != nil {
			t.Fatal(err)
		}
		if n, err := b.OneShot(); err != nil || n != "" {
			t.Errorf("%s: the next start tries %q, %v", name, n, err)
		}
	}
}

// What somebody chose in the menu is the default of loader.conf too before the other slot
// is written or tried: the variable may be lost, and on-trial reads loader.conf.
func TestBoard_chosenStays(t *testing.T) {
	for what, write := range map[string]func(*slot.Board) error{
		"clear": func(b *slot.Board) error { return b.Clear(slot.B) },
		"try":   func(b *slot.Board) error { return b.TryOnce(slot.B) },
	} {
		folder := slottest.New(t, "1.2.3")
		folder.Fill("b", "1.2.2")
		conf := strings.ReplaceAll(folder.Read("boot/efi/loader/loader.conf"), "gatehouse-a", "gatehouse-b")
		folder.Write("boot/efi/loader/loader.conf", conf)
		chosen := efivars + "LoaderEntryDefault" + vendor
		folder.Write(chosen, "\x07\x00\x00\x00"+string(wide("gatehouse-a.conf")))
		b := open(t, folder)
		if err := write(b); err != nil {
			t.Fatal(err)
		}
		if now := folder.Read("boot/efi/loader/loader.conf"); !strings.Contains(now, "default gatehouse-a.conf") {
			t.Errorf("%s: loader.conf is %q", what, now)
		}
		if n, err := b.Default(); err != nil || n != slot.A {
			t.Errorf("%s: the default is %q, %v", what, n, err)
		}
	}
}
