// Package slottest makes folders that look like a board with two slots, for
// [gatehouse/internal/board/slot.OpenAt].
package slottest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// RootSize is the size of each root partition of a board, in bytes.
const RootSize = 2<<20 + 64<<10

// Board is a folder that looks like a board: slot a runs and is the default, slot b is empty.
type Board struct {
	Root string // the folder

	t testing.TB
}

// New makes a board with UEFI and an image of that version.
func New(t testing.TB, version string) Board {
	t.Helper()
	b := Board{Root: t.TempDir(), t: t}
	b.Write("usr/lib/os-release", fmt.Sprintf("ID=debian\nVERSION_ID=\"13\"\nIMAGE_ID=gatehouse\nIMAGE_VERSION=%q\n", version))
	b.Write("usr/lib/gatehouse-image/family", "gatehouse-arm64\n")
	b.Write("proc/self/mountinfo", "22 1 179:2 / / ro,noatime shared:1 - ext4 /dev/mmcblk0p2 ro\n"+
		"30 22 179:1 / /boot/efi ro,nosuid shared:9 - vfat /dev/mmcblk0p1 ro\n")
	for i, name := range []string{"boot", "root-a", "root-b", "data"} {
		b.partition(i+1, name)
	}
	b.Write("boot/efi/loader/loader.conf", "timeout 3\neditor no\ndefault gatehouse-a.conf\n")
	for _, letter := range []string{"a", "b"} {
		b.Write("boot/efi/gatehouse/"+letter+"/.keep", "")
		for _, suffix := range []string{"", "-shell"} {
			b.WriteEntry(letter, suffix, "")
		}
	}
	b.Fill("a", version)
	b.Start("a")
	b.UEFI()
	return b
}

// partition adds a partition to the disk.
func (b Board) partition(number int, name string) {
	b.t.Helper()
	disk := "sys/devices/platform/soc/mmc0/block/mmcblk0"
	device := fmt.Sprintf("mmcblk0p%d", number)
	b.Write(disk+"/"+device+"/uevent", fmt.Sprintf("MAJOR=179\nMINOR=%d\nDEVNAME=%s\nDEVTYPE=partition\nPARTN=%[1]d\nPARTNAME=%[3]s\n", number, device, name))
	b.Write(disk+"/"+device+"/size", fmt.Sprintf("%d\n", RootSize/512))
	b.Write("dev/"+device, "")
	if err := os.Truncate(b.Path("dev/"+device), RootSize); err != nil {
		b.t.Fatal(err)
	}
	b.Write("sys/dev/block/.keep", "")
	if err := os.Symlink("../../../"+disk+"/"+device, b.Path(fmt.Sprintf("sys/dev/block/179:%d", number))); err != nil {
		b.t.Fatal(err)
	}
}

// Path returns where a path of the board is.
func (b Board) Path(path string) string { return filepath.Join(b.Root, path) }

// Write writes a file of the board, in place where it exists.
func (b Board) Write(path, content string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.Path(path)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.Path(path), []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Read returns a file of the board.
func (b Board) Read(path string) string {
	b.t.Helper()
	content, err := os.ReadFile(b.Path(path))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(content)
}

// WriteEntry writes an entry of a slot, padded; suffix is "" or "-shell".
func (b Board) WriteEntry(letter, suffix, content string) {
	b.t.Helper()
	padding := bytes.Repeat([]byte("\n"), 512-len(content))
	b.Write("boot/efi/loader/entries/gatehouse-"+letter+suffix+".conf", content+string(padding))
}

// Fill puts a version into a slot.
func (b Board) Fill(letter, version string) {
	b.t.Helper()
	for _, suffix := range []string{"", "-shell"} {
		b.WriteEntry(letter, suffix, fmt.Sprintf("title Gatehouse %s\nversion %[1]s\nsort-key gatehouse\nlinux /gatehouse/%s/vmlinuz\n"+
			"initrd /gatehouse/%[2]s/initrd\noptions gatehouse.slot=%[2]s\n", version, letter))
	}
	b.Write("boot/efi/gatehouse/"+letter+"/vmlinuz", "kernel of "+version)
	b.Write("boot/efi/gatehouse/"+letter+"/initrd", "initrd of "+version)
}

// Start makes a slot the one that runs.
func (b Board) Start(letter string) {
	b.t.Helper()
	b.Write("proc/cmdline", "console=ttyAMA0 panic=10 gatehouse.slot="+letter+" quiet\n")
	number := map[string]int{"a": 2, "b": 3}[letter]
	b.Write("proc/self/mountinfo", fmt.Sprintf("22 1 179:%d / / ro,noatime shared:1 - ext4 /dev/mmcblk0p%[1]d ro\n"+
		"30 22 179:1 / /boot/efi ro,nosuid shared:9 - vfat /dev/mmcblk0p1 ro\n", number))
}

// UEFI makes the board one whose firmware keeps its variables itself.
func (b Board) UEFI() { b.firmware("EDK II 1.00") }

// UBoot makes the board one that U-Boot has started.
func (b Board) UBoot() { b.firmware("Das U-Boot 8229.00") }

// firmware states what has started the boot loader.
func (b Board) firmware(name string) {
	b.t.Helper()
	value := []byte{6, 0, 0, 0}
	for _, letter := range []byte(name + "\x00") {
		value = append(value, letter, 0)
	}
	b.Write("sys/firmware/efi/efivars/LoaderFirmwareInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f", string(value))
}

// Waiting returns how many bytes of a file have been written and are not on the disk yet; 0
// where the kernel does not say (Linux before 6.5), or the file is in memory.
func (b Board) Waiting(path string) int64 {
	b.t.Helper()
	f, err := os.Open(b.Path(path))
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var fs unix.Statfs_t
	var cache unix.Cachestat_t
	if unix.Fstatfs(int(f.Fd()), &fs) != nil || fs.Type == unix.TMPFS_MAGIC || unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &cache, 0) != nil {
		return 0
	}
	return int64(cache.Dirty+cache.Writeback) * int64(os.Getpagesize())
}
