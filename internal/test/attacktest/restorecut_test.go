package attacktest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/test/gatewaytest"
)

// A power cut at each write and each flush of a restore leaves the old gateway with its
// configuration, or the new one, whole. Of the configuration of the new one some files may
// still be the old ones, each whole, and restoring again writes the rest.
func TestAttack_powerCutInRestore(t *testing.T) {
	gatewaytest.NeedDisk(t)
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
			got := c.identity()
			if id, _, _ := strings.Cut(becomes, ","); got != becomes && strings.HasPrefix(got, id) {
				c.isMixed()
				seen["mixed"]++
				c.run("restore", "--passphrase-file", old.path("passphrase"), medium)
				got = c.identity()
			}
			seen[got]++
			if got != was && got != becomes {
				t.Errorf("after %d writes (kept %v): %s\nwant %s\nor %s", cut.After, cut.Kept, got, was, becomes)
			}
			for _, name := range namesIn(t, c.data) {
				if strings.HasPrefix(name, ".restor") {
					t.Errorf("after %d writes (kept %v): %s is left", cut.After, cut.Kept, name)
				}
			}
		})
	}
	t.Logf("%v", seen)
	if seen[was] == 0 || seen[becomes] == 0 || seen["mixed"] == 0 {
		t.Errorf("%v: this proves nothing", seen)
	}
}

// isMixed checks that each file of the configuration is wholly that of one of the two
// boards.
func (b board) isMixed() {
	b.t.Helper()
	const absent = "absent"
	for name, either := range map[string][]string{
		"gatehouse.toml":     {"# of the board\n", "# of the new one\n"},
		"conf.d/50-old.toml": {"name = \"old-gate\"\n", absent},
		"conf.d/60-new.toml": {"name = \"new-gate\"\n", absent},
		"credentials/key":    {"of the old one", absent},
	} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(b.config), name)) //nolint:gosec // of this test
		if err != nil {
			text = []byte(absent)
		}
		if !slices.Contains(either, string(text)) {
			b.t.Errorf("%s is %q", name, text)
		}
	}
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
