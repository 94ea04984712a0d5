package attacktest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/internal/test/gatewaytest"
)

// A power cut at each write and each flush of a restore leaves the old gateway or the
// new one, whole: its data and its configuration.
func TestAttack_powerCutInRestore(t *testing.T) {
	gatewaytest.Binary(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	d := gatewaytest.NewDisk(t)
	old := newBoard(t)
	old.write("gatehouse/conf.d/50-old.toml", "name = \"old-gate\"\n")
	old.write("gatehouse/credentials/key", "of the old one")
	medium := old.back()
	b := old
	b.root = d.Dir
	b.data, b.config = b.path("data"), b.path("gatehouse/gatehouse.toml")
	b.write("gatehouse/gatehouse.toml", "# of the new one\n")
	b.write("gatehouse/conf.d/60-new.toml", "name = \"new-gate\"\n")
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: b.data, Env: []string{"GATEHOUSE_CONFIG=" + b.config}})
	b.must(p.Stop())
	owned := os.Getuid() == 0 && exec.CommandContext(t.Context(), "chown", "-R", "65534:65534", b.data).Run() == nil //nolint:gosec // a folder of this test
	t.Logf("the data directory is another user's: %v", owned)
	was, becomes := b.identity(), old.identity()
	if was == becomes {
		t.Fatal("the two gateways are the same")
	}
	d.Record()
	b.run("restore", "--passphrase-file", old.path("passphrase"), medium)
	seen := map[string]int{}
	for _, cut := range sample(t, d.Cuts()) {
		cut.Mount(t, func(dir string) {
			c := b
			c.root = dir
			c.data, c.config = c.path("data"), c.path("gatehouse/gatehouse.toml")
			c.moveNote(b.root)
			c.run("restore", "--complete")
			got := c.identity()
			seen[got]++
			if got != was && got != becomes {
				t.Errorf("after %d writes (kept %v): %s\nwant %s\nor %s", cut.After, cut.Kept, got, was, becomes)
			}
			for _, folder := range []string{"gatehouse", "gatehouse/conf.d", "data"} {
				for _, name := range namesIn(t, c.path(folder)) {
					if strings.HasSuffix(name, ".restored") || strings.HasPrefix(name, "restore.json") {
						t.Errorf("after %d writes (kept %v): %s is left in %s", cut.After, cut.Kept, name, folder)
					}
				}
			}
		})
	}
	if seen[was] == 0 || seen[becomes] == 0 {
		t.Errorf("%d times the old one, %d times the new one: this proves nothing", seen[was], seen[becomes])
	}
}

// moveNote makes a note that was written below another folder one of this board, which
// is mounted elsewhere than it was.
func (b board) moveNote(from string) {
	b.t.Helper()
	path := filepath.Join(filepath.Dir(b.config), ".restored", "restore.json")
	text, err := os.ReadFile(path) //nolint:gosec // of this test
	if err != nil {
		return
	}
	b.must(os.WriteFile(path, []byte(strings.ReplaceAll(string(text), from, b.root)), 0o600)) //nolint:gosec // of this test
}

// identity starts the gateway, and says which it is, by its data and its configuration.
func (b board) identity() string {
	b.t.Helper()
	if os.Getuid() == 0 {
		b.must(exec.CommandContext(b.t.Context(), "chown", "-R", "0:0", b.data).Run()) //nolint:gosec // a folder of this test; refuseRoot
	}
	p := gatewaytest.Exec(b.t, gatewaytest.Launch{Data: b.data, Env: []string{"GATEHOUSE_CONFIG=" + b.config}})
	defer p.Kill()
	status, err := p.Admin.Status(b.t.Context())
	b.must(err)
	key, err := os.ReadFile(filepath.Join(filepath.Dir(b.config), "credentials", "key"))
	return strings.Join([]string{string(status.GatewayID), status.Name, string(key), strings.Join(namesIn(b.t, b.path("gatehouse/conf.d")), " ")}, ", ") +
		map[bool]string{true: ", no key"}[err != nil]
}

func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.Contains(e.Name(), ".before-restore-") {
			names = append(names, e.Name())
		}
	}
	return names
}
