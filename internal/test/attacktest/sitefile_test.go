package attacktest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/internal/test/gatewaytest"
)

// bootFolder is a gateway with a boot partition.
type bootFolder struct {
	*gatewaytest.Program
	dir string
}

func newBootFolder(t *testing.T) bootFolder {
	t.Helper()
	root := t.TempDir()
	b := bootFolder{dir: root}
	b.write(t, "etc/gatehouse.toml", "")
	b.write(t, "boot/cmdline.txt", "console=tty1 root=LABEL=writable\n")
	b.write(t, "boot/vmlinuz", "the kernel")
	b.Program = gatewaytest.Exec(t, gatewaytest.Launch{
		Data: filepath.Join(root, "data"), Env: []string{"GATEHOUSE_CONFIG=" + filepath.Join(root, "etc", "gatehouse.toml")},
	})
	return b
}

func (b bootFolder) path(name string) string { return filepath.Join(b.dir, name) }

func (b bootFolder) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// starts checks that the board still has what it starts from.
func (b bootFolder) starts(t *testing.T) {
	t.Helper()
	for name, want := range map[string]string{"cmdline.txt": "console=tty1", "vmlinuz": "the kernel"} {
		if text, err := os.ReadFile(b.path("boot/" + name)); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// A site file named the kernel's command line as the file with a password: it was
// overwritten and removed, and the board did not start any more.
func TestAttack_passwordFileOfTheBoard(t *testing.T) {
	t.Parallel()
	b := newBootFolder(t)
	b.write(t, "boot/porter.password", "a long enough password\n")
	b.write(t, "boot/gatehouse-site.toml", `[[account]]
email = "porter@example.test"
password_file = "porter.password"
[[account]]
email = "guest@example.test"
password_file = "cmdline.txt"
`)
	if out, status := b.Run("first-boot", b.path("boot/gatehouse-site.toml")); status != 0 {
		t.Fatalf("first-boot: %d %s", status, out)
	}
	b.starts(t)
	if _, err := os.Stat(b.path("boot/porter.password")); err == nil {
		t.Error("the file that was put there for its password is left")
	}
	if result, err := os.ReadFile(b.path("boot/gatehouse-result.txt")); err != nil || !strings.Contains(string(result), "cmdline.txt is not wiped") {
		t.Errorf("the result does not name what was left: %s, %v", result, err)
	}
}

// The state that a first boot leaves for the next run was believed, wherever it named
// files to remove: one that came out of a backup erased the boot partition.
func TestAttack_stateOfFirstBoot(t *testing.T) {
	t.Parallel()
	b := newBootFolder(t)
	const text = "[[account]]\nemail = \"porter@example.test\"\n"
	site := b.path("boot/gatehouse-site.toml")
	b.write(t, "boot/gatehouse-site.toml", text)
	b.write(t, "elsewhere/porter.password", "of somebody else")
	state, err := json.Marshal(map[string]any{"wiping": map[string]any{
		"path": site, "text": text, "spans": [][2]int{},
		"others": []string{b.path("boot/cmdline.txt"), b.path("boot/vmlinuz"), b.path("elsewhere/porter.password")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "etc/first-boot.state", string(state))
	if out, status := b.Run("first-boot", site); status != 0 {
		t.Fatalf("first-boot: %d %s", status, out)
	}
	b.starts(t)
	if _, err := os.Stat(b.path("elsewhere/porter.password")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.path("boot/gatehouse-site.done.toml")); err != nil {
		t.Errorf("the state was not taken at all: this proves nothing: %v", err)
	}
}
