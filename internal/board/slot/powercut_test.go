package slot_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/test/slottest"
)

// cutOff is a write to the boot partition that a power cut may end.
type cutOff struct {
	name    string
	prepare func(*slot.Board) error
	write   func(*slot.Board) error
}

// cutOffs are the writes of an update, in its order.
func cutOffs() []cutOff {
	setOneShot := func(b *slot.Board) error { return b.SetOneShot(slot.B) }
	none := func(*slot.Board) error { return nil }
	return []cutOff{
		{"Clear", setOneShot, func(b *slot.Board) error { return b.Clear(slot.B) }},
		{"WriteFile", func(b *slot.Board) error { return b.Clear(slot.B) }, func(b *slot.Board) error {
			kernel := strings.Repeat("kernel", 1000)
			return b.WriteFile(slot.B, slot.Kernel, strings.NewReader(kernel), int64(len(kernel)), sha256.Sum256([]byte(kernel)))
		}},
		{"WriteEntries", none, func(b *slot.Board) error {
			return b.WriteEntries(slot.B, []byte("version 1.4.0\nlinux x\n"), []byte("version 1.4.0\n"))
		}},
		{"SetOneShot", none, setOneShot},
		{"SetOneShot again", setOneShot, setOneShot},
		{"ClearOneShot", setOneShot, (*slot.Board).ClearOneShot},
		{"SetDefault", none, func(b *slot.Board) error { return b.SetDefault(slot.B) }},
		{"SetDefault back", func(b *slot.Board) error { return b.SetDefault(slot.B) }, func(b *slot.Board) error { return b.SetDefault(slot.A) }},
	}
}

// A power cut leaves any mixture of the sectors that were and that are to be, or that
// were never written; of a file, the old or the new size; of a new file, all or nothing. Whatever
// it leaves starts the old default or the new one, whole.
func TestBoard_powerCut(t *testing.T) {
	golden, err := os.ReadFile("testdata/ubootefi.var")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cutOffs() {
		several := string(slot.SetVariable(golden, "LoaderOther", make([]byte, 900))) // sectors
		for name, variables := range map[string]string{"": "", " with variables": several} {
			t.Run(c.name+name, func(t *testing.T) { tryCuts(t, c, variables) })
		}
	}
}

// tryCuts cuts the power during one write.
func tryCuts(t *testing.T, c cutOff, variables string) {
	folder := slottest.New(t, "1.2.3")
	folder.UBoot()
	folder.Fill("b", "1.3.0")
	if variables != "" {
		folder.Write("boot/efi/ubootefi.var", variables)
	}
	b := open(t, folder)
	if err := c.prepare(b); err != nil {
		t.Fatal(err)
	}
	before, was := tree(t, folder), look(t, b)
	inodes := stat(t, b, before)
	if err := c.write(b); err != nil {
		t.Fatal(err)
	}
	after, is := tree(t, folder), look(t, b)
	for path, inode := range stat(t, b, after) {
		if old, found := inodes[path]; found && !os.SameFile(old, inode) {
			t.Errorf("%s was replaced: on FAT that is several writes", path)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		for _, path := range paths(before, after) {
			left, found := mix(r, before, after, path)
			if !found {
				if err := os.Remove(folder.Path("boot/efi/" + path)); err != nil && !errors.Is(err, os.ErrNotExist) {
					r.Fatal(err)
				}
				continue
			}
			folder.Write("boot/efi/"+path, left)
		}
		got := look(t, b)
		if got.standard != was.standard && got.standard != is.standard {
			r.Fatalf("the default is %q", got.standard)
		}
		if got.standard == "" || got.versions[got.standard] != was.versions[got.standard] {
			r.Fatalf("the default %q has version %q", got.standard, got.versions[got.standard])
		}
		if got.oneShot != "" && got.oneShot != was.oneShot && got.oneShot != is.oneShot {
			r.Fatalf("the next start tries %q", got.oneShot)
		}
	})
}

// seen is what the next start of a board does.
type seen struct {
	standard, oneShot slot.Name
	versions          map[slot.Name]string
}

func look(t *testing.T, b *slot.Board) seen {
	t.Helper()
	standard, err1 := b.Default()
	oneShot, err2 := b.OneShot()
	first, err3 := b.Installed(slot.A)
	second, err4 := b.Installed(slot.B)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return seen{standard, oneShot, map[slot.Name]string{slot.A: first, slot.B: second}}
}

func stat(t *testing.T, b *slot.Board, files map[string]string) map[string]os.FileInfo {
	t.Helper()
	all := map[string]os.FileInfo{}
	for path := range files {
		info, err := os.Stat(b.Boot() + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = info
	}
	return all
}

// paths returns the paths of files that differ.
func paths(before, after map[string]string) (all []string) {
	for path, content := range before {
		if now, found := after[path]; !found || now != content {
			all = append(all, path)
		}
	}
	for path := range after {
		if _, found := before[path]; !found {
			all = append(all, path)
		}
	}
	return all
}

// mix returns what a power cut may leave of a file; false for nothing.
func mix(r *rapid.T, before, after map[string]string, path string) (string, bool) {
	old, was := before[path]
	now, is := after[path]
	if !was || !is {
		if rapid.Bool().Draw(r, "new") {
			return now, is
		}
		return old, was
	}
	size := rapid.SampledFrom([]int{len(old), len(now)}).Draw(r, "size")
	left := make([]byte, size)
	for at := 0; at < size; at += 512 {
		end := min(at+512, size)
		switch from := rapid.IntRange(0, 2).Draw(r, "sector"); {
		case from == 0 && at < len(old):
			copy(left[at:end], old[at:])
		case from == 1 || at < len(now) && at < len(old):
			copy(left[at:end], now[min(at, len(now)):])
		} // else a sector that was never written
	}
	return string(left), true
}
