package gateway_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"gatehouse/internal/gateway"
)

// console is a folder of the gateway's user and one of root's.
type console struct {
	*testing.T
	notice, copied string // paths
}

func newConsole(t *testing.T) console {
	t.Helper()
	return console{T: t, notice: filepath.Join(t.TempDir(), "setup.issue"), copied: filepath.Join(t.TempDir(), "gatehouse.issue")}
}

func (c console) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c console) write(text string) {
	c.Helper()
	c.must(os.WriteFile(c.notice, []byte(text), 0o600))
}

// show runs [gateway.ShowNotice] to its end, and changes the notice as soon as it is
// shown; stop ends its context. It returns the status and the error.
func (c console) show(change func(shown string, stop context.CancelFunc)) (status string, err error) {
	c.Helper()
	synctest.Test(c.T, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		err = gateway.ShowNotice(ctx, c.notice, c.copied, func(text string) error {
			status = text
			shown, err := os.ReadFile(c.copied)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			change(string(shown), stop)
			return nil
		})
		stop()
	})
	if text, err := os.ReadFile(c.copied); !errors.Is(err, fs.ErrNotExist) {
		c.Errorf("after the end the copy reads %q, %v", text, err)
	}
	return status, err
}

func TestShowNotice_text(t *testing.T) {
	c := newConsole(t)
	c.write("\nSetup code   K7QF-3MRD\n\x1b[2J\\S{/etc/shadow} \x00ü\r\n" + strings.Repeat("x", 1000) + strings.Repeat("\n.", 100))
	want := "\nSetup code   K7QF-3MRD\n[2JS{/etc/shadow} \n" + strings.Repeat("x", 120) + "\n" + strings.Repeat(".\n", 36)
	status, err := c.show(func(shown string, _ context.CancelFunc) {
		if shown != want {
			t.Errorf("the copy reads %q, want %q", shown, want)
		}
		c.must(os.Remove(c.notice))
	})
	if status != "Shows the notice" || err != nil {
		t.Errorf("%q, %v", status, err)
	}
}

// Each change ends it, also one that comes right after the copy; systemd starts it again.
func TestShowNotice_change(t *testing.T) {
	for name, change := range map[string]func(c console) error{
		"in place": func(c console) error { return os.WriteFile(c.notice, []byte("other\n"), 0o600) },
		"renamed": func(c console) error {
			return errors.Join(os.WriteFile(c.notice+".new", []byte("other\n"), 0o600), os.Rename(c.notice+".new", c.notice))
		},
		"removed":            func(c console) error { return os.Remove(c.notice) },
		"a link":             func(c console) error { return errors.Join(os.Remove(c.notice), os.Symlink("/nowhere", c.notice)) },
		"the folder removed": func(c console) error { return os.RemoveAll(filepath.Dir(c.notice)) },
		"the folder moved":   func(c console) error { return os.Rename(filepath.Dir(c.notice), filepath.Dir(c.notice)+"-aside") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			c.write("code\n")
			_, err := c.show(func(shown string, _ context.CancelFunc) {
				if shown != "code\n" {
					t.Errorf("the copy reads %q", shown)
				}
				c.must(change(c))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestShowNotice_none(t *testing.T) {
	c := newConsole(t)
	for _, folder := range []bool{true, false} {
		if !folder {
			c.must(os.Remove(filepath.Dir(c.notice)))
		}
		c.must(os.WriteFile(c.copied, []byte("stale"), 0o600))
		if status, err := c.show(func(string, context.CancelFunc) {}); status != "No notice" || err != nil {
			t.Errorf("folder=%t: %q, %v", folder, status, err)
		}
	}
}

func TestShowNotice_stopped(t *testing.T) {
	c := newConsole(t)
	c.write("code\n")
	if _, err := c.show(func(_ string, stop context.CancelFunc) { stop() }); err != nil {
		t.Error(err)
	}
}

// What is refused is not shown, and waits for the next change: systemd would start it
// again at once.
func TestShowNotice_refused(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(c console) error{
		"a link":        func(c console) error { return os.Symlink(secret, c.notice) },
		"a second name": func(c console) error { return os.Link(secret, c.notice) },
		"a pipe":        func(c console) error { return syscall.Mkfifo(c.notice, 0o600) },
		"a folder":      func(c console) error { return os.Mkdir(c.notice, 0o700) },
		"above a link": func(c console) error {
			aside := filepath.Dir(c.notice) + "-aside"
			return errors.Join(os.WriteFile(c.notice, []byte("by a link\n"), 0o600), os.Rename(filepath.Dir(c.notice), aside), os.Symlink(aside, filepath.Dir(c.notice)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConsole(t)
			c.must(plant(c))
			c.must(os.WriteFile(c.copied, []byte("stale"), 0o600))
			status, err := c.show(func(shown string, _ context.CancelFunc) {
				if shown != "" {
					t.Errorf("the copy reads %q", shown)
				}
				c.must(os.RemoveAll(filepath.Dir(c.notice)))
			})
			if err == nil || name != "above a link" && !strings.HasPrefix(status, "Shows nothing: ") {
				t.Errorf("%q, %v", status, err)
			}
		})
	}
}
