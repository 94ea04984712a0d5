package certificate_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gatehouse/internal/health"
)

// stranger is a user who is not root and not the owner of a file.
const stranger = 65534

// deny makes files unreadable for the user who runs the test, and hands the rest of the
// folder to a user other than root, as whom the test goes on then.
func deny(h *house, names ...string) {
	h.Helper()
	for _, name := range names {
		if err := os.Chmod(h.path(name), 0); err != nil {
			h.Fatal(err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	parent := filepath.Dir(h.cfg.Folder)
	for _, path := range []string{filepath.Dir(parent), parent, h.cfg.Folder, h.path("ca.key"), h.path("ca.crt"), h.path("server.key"), h.path("server.crt")} {
		if err := os.Chown(path, stranger, stranger); err != nil {
			h.Fatal(err)
		}
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Setfsuid(stranger); err != nil {
		h.Fatal(err)
	}
}

// Files that only belong to somebody else are good: nobody is told to remove them.
func TestKeeper_own_foreign(t *testing.T) {
	for _, test := range []struct {
		name  string
		files []string
		mode  os.FileMode // of the folder
		code  health.Code
	}{
		{"key of the CA", []string{"ca.key"}, 0o700, health.CertificateInvalid},
		{"CA", []string{"ca.crt"}, 0o700, health.CertificateInvalid},
		{"everything", []string{"ca.key", "ca.crt", "server.key", "server.crt"}, 0o700, health.CertificateInvalid},
		{"folder", nil, 0o000, health.CertificateInvalid},
		{"server key and folder", []string{"server.key"}, 0o500, health.CertificateNotKept},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHouse(t)
			h.start()
			t.Cleanup(func() { _ = os.Chmod(h.cfg.Folder, 0o700) })
			deny(h, test.files...)
			if err := os.Chmod(h.cfg.Folder, test.mode); err != nil {
				t.Fatal(err)
			}
			h.start()
			h.codes(test.code)
			h.reports("chown -R --reference=" + filepath.Dir(h.cfg.Folder) + " " + h.cfg.Folder)
			for _, c := range h.conditions.Conditions() {
				if strings.Contains(c.Advice, "remove") || strings.Contains(c.Advice, "backup") {
					t.Errorf("advice %q", c.Advice)
				}
			}
		})
	}
}
