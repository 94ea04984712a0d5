package gateway_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatehouse/internal/gateway"
)

func TestCopyNotice(t *testing.T) {
	folder, copied := t.TempDir(), filepath.Join(t.TempDir(), "gatehouse.issue")
	notice := filepath.Join(folder, "setup.issue")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(notice, []byte("\nSetup code   K7QF-3MRD\n\x1b[2J\\S{/etc/shadow} \x00ü\r\n"+strings.Repeat("x", 1000)+strings.Repeat("\n.", 100)), 0o600))
	must(gateway.CopyNotice(notice, copied))
	text, err := os.ReadFile(copied)
	must(err)
	want := "\nSetup code   K7QF-3MRD\n[2JS{/etc/shadow} \n" + strings.Repeat("x", 120) + "\n" + strings.Repeat(".\n", 36)
	if string(text) != want {
		t.Errorf("the copy reads %q, want %q", text, want)
	}

	secret := filepath.Join(t.TempDir(), "secret")
	must(os.WriteFile(secret, []byte("a secret of another"), 0o600))
	for name, plant := range map[string]func() error{
		"a link":        func() error { return os.Symlink(secret, notice) },
		"a second name": func() error { return os.Link(secret, notice) },
		"a pipe":        func() error { return syscall.Mkfifo(notice, 0o600) },
		"a folder":      func() error { return os.Mkdir(notice, 0o700) },
	} {
		must(os.Remove(notice))
		must(plant())
		if err := gateway.CopyNotice(notice, copied); err == nil {
			t.Errorf("%s was read", name)
		}
		if text, err := os.ReadFile(copied); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the copy reads %q, %v", name, text, err)
		}
	}
	must(os.Remove(notice))
	must(os.WriteFile(notice, []byte("again\n"), 0o600))
	must(gateway.CopyNotice(notice, copied))
	must(os.Remove(notice))
	must(gateway.CopyNotice(notice, copied))
	if _, err := os.Stat(copied); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a notice: %v", err)
	}
	aside := folder + "-aside"
	must(os.Rename(folder, aside))
	must(os.Symlink(aside, folder))
	must(os.WriteFile(filepath.Join(aside, "setup.issue"), []byte("by a link\n"), 0o600))
	if _, err := gateway.ReadNotice(notice); err == nil {
		t.Error("the folder was a link")
	}
}
