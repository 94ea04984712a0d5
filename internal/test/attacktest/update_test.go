package attacktest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/install/updatefile"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/slottest"
)

// updateSecret is in the query of each URL of an update.
const updateSecret = "hunter2canary"

// updateSite is a gateway of the cloud on a board with two slots, whose system updates itself
// from a web server.
type updateSite struct {
	*cloudSite
	board   slottest.Board
	env     []string // of root's program
	release api.PrivateKey
	web     *httptest.Server
	files   map[string][]byte // of the web server, by version
	fetched atomic.Int64
}

// newUpdateSite starts the site; it needs the namespaces of the test.
func newUpdateSite(t *testing.T) *updateSite {
	t.Helper()
	s := &updateSite{board: slottest.New(t, "1.2.3"), files: map[string][]byte{}}
	var err error
	if s.release, err = api.Generate("release"); err != nil {
		t.Fatal(err)
	}
	s.board.Write("usr/lib/gatehouse-image/update-keys", s.release.Public().String()+"\n")
	for _, version := range []string{"1.2.2", "1.3.0"} {
		s.files[version] = s.pack(t, version)
	}
	s.web = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fetched.Add(1)
		_, _ = w.Write(s.files[strings.Trim(r.URL.Path, "/")])
	}))
	t.Cleanup(s.web.Close)
	s.board.Write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.web.Certificate().Raw})))
	s.board.Write("bin/systemctl", "#!/bin/sh\necho \"$@\" >>'"+s.board.Path("asked")+"'\n")
	s.board.Write("asked", "")
	if err := errors.Join(
		os.Chmod(s.board.Path("bin/systemctl"), 0o755), //nolint:gosec // a program
		unix.Mount("tmpfs", "/run", "tmpfs", 0, ""), os.Mkdir("/run/gatehouse", 0o700), os.Symlink("/run", s.board.Path("run")),
	); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "SSL_CERT_FILE="+s.board.Path("ca.pem"), "PATH="+s.board.Path("bin")+":"+os.Getenv("PATH"))
	s.asRoot(t, "settle")
	s.cloudSite = newCloudSite(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_UPDATE_FROM_CLOUD=true"}})
	s.env = append(s.env, "GATEHOUSE_ADMIN_SOCKET="+filepath.Join(s.Data, "admin.sock"))
	return s
}

// pack returns an update that the board trusts.
func (s *updateSite) pack(t *testing.T, version string) []byte {
	t.Helper()
	entry := "version " + version + "\nlinux /gatehouse/@SLOT@/vmlinuz\noptions gatehouse.slot=@SLOT@\n"
	var raw bytes.Buffer
	_, err := updatefile.Pack(&raw, updatefile.Release{
		Family: "gatehouse-arm64", Version: version, Schema: 99, Time: time.Unix(1795000000, 0), Scratch: t.TempDir(),
		Kernel: strings.NewReader("kernel of " + version), Initrd: strings.NewReader("initrd of " + version),
		Entry: strings.NewReader(entry), ShellEntry: strings.NewReader(entry), Root: bytes.NewReader(bytes.Repeat([]byte(version+"\n\n\n"), 1<<17)),
	}, s.release)
	if err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

// asRoot runs root's part until it ends by itself.
func (s *updateSite) asRoot(t *testing.T, command string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), gatewaytest.Binary(t), "update", command, "--board", s.board.Root) //nolint:gosec // our own binary
	cmd.Env = s.env
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), updateSecret) {
		t.Fatalf("update %s: %v\n%s", command, err, out)
	}
}

// order signs an update to a version, changed.
func (s *updateSite) order(id, version string, change func(*api.Command)) []byte {
	s.T.Helper()
	cmd := api.Command{
		ID: id, Gateway: s.gateway, Name: api.Update, Actor: "porter@example.test", IssuedAt: time.Now(),
		URL: s.web.URL + "/" + version + "?token=" + updateSecret, SHA256: fmt.Sprintf("%x", sha256.Sum256(s.files[version])),
	}
	change(&cmd)
	cmd.Expires = cmd.IssuedAt.Add(time.Minute)
	token, err := s.key.Sign(cmd)
	if err != nil {
		s.T.Fatal(err)
	}
	return []byte(token)
}

// unasked fails the test if root is asked for an update.
func (s *updateSite) unasked(after string) {
	s.T.Helper()
	if _, err := os.Stat("/run/gatehouse/update-request.json"); !errors.Is(err, fs.ErrNotExist) {
		s.T.Errorf("%s: root is asked: %v", after, err)
	}
}

// last returns how the last update ended.
func (s *updateSite) last() site.LastUpdate {
	s.T.Helper()
	status, err := slot.Exchange{}.ReadStatus()
	if err != nil || status.Last == nil {
		s.T.Fatalf("the status is %+v, %v", status, err)
	}
	return *status.Last
}

// oneShot returns the entry that the next start tries.
func (s *updateSite) oneShot() string {
	s.T.Helper()
	b, err := slot.OpenAt(s.board.Root)
	if err != nil {
		s.T.Fatal(err)
	}
	n, err := b.OneShot()
	if err != nil {
		s.T.Fatal(err)
	}
	return string(n)
}

// A signed command updates one gateway, once, however often and whenever it comes; one that is
// not right asks root for nothing, and one for an older version is refused by root. A door
// opens meanwhile, and the secret in the URL is heard by the web server alone.
func TestAttack_updateByCloud(t *testing.T) {
	gatewaytest.Binary(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	s := newUpdateSite(t)
	for reason, token := range map[string][]byte{
		"wrong-audience": s.order("x-1", "1.3.0", func(c *api.Command) { c.Gateway = "01890000-0000-7000-8000-000000000000" }),
		"expired":        s.order("x-2", "1.3.0", func(c *api.Command) { c.IssuedAt = c.IssuedAt.Add(-time.Hour) }),
		"not-yet-valid":  s.order("x-3", "1.3.0", func(c *api.Command) { c.IssuedAt = c.IssuedAt.Add(time.Hour) }),
	} {
		id := map[string]string{"wrong-audience": "x-1", "expired": "x-2", "not-yet-valid": "x-3"}[reason]
		if r := s.command(id, token); r.Outcome != site.Refused || r.Reason != reason {
			t.Errorf("%s: the answer is %+v", reason, r)
		}
		s.unasked(reason)
	}

	if r := s.command("older", s.order("older", "1.2.2", func(*api.Command) {})); r.Outcome != site.Accepted {
		t.Fatalf("the answer is %+v", r)
	}
	s.asRoot(t, "run")
	if l := s.last(); l.Outcome != site.UpdateRefused || !strings.Contains(l.Reason, "older than 1.2.3") || s.oneShot() != "" {
		t.Errorf("the last update is %+v, and slot %q is next", l, s.oneShot())
	}

	ordered := time.Now()
	good, before := s.order("good", "1.3.0", func(*api.Command) {}), s.fetched.Load()
	for range 50 {
		s.app.publish(t, api.CommandLeaf, good, false)
	}
	s.Await("each copy is answered", func() bool { return len(s.app.results("good")) == 50 })
	accepted := 0
	for _, r := range s.app.results("good") {
		if r.Outcome == site.Accepted {
			accepted++
		} else if r.Reason != "repeated" {
			t.Errorf("a copy is answered %+v", r)
		}
	}
	s.asRoot(t, "run")
	if asked := s.board.Read("asked"); accepted != 1 || asked != "reboot\n" || s.oneShot() != "b" || s.fetched.Load() != before+1 {
		t.Errorf("%d copies were accepted; systemctl was asked for %q, slot %q is next, and %d updates were fetched", accepted, asked, s.oneShot(), s.fetched.Load()-before)
	}
	if access, _ := s.Login(); !s.Unlock(access, s.issued.StationToken) {
		t.Error("the door does not open")
	}

	// The new version does not start: the board is back on the old one.
	if err := os.Remove(s.board.Path("sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f")); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.asRoot(t, "settle")
	s.restart()
	if l := s.last(); l.Outcome != site.UpdateFellBack || l.Version != "1.3.0" {
		t.Errorf("the last update is %+v", l)
	}
	r := s.command("good", good)
	repeated := r.Reason == "repeated" && r.First != nil && r.First.Outcome == site.Accepted
	expired := r.Reason == "expired" && time.Now().After(ordered.Truncate(time.Second).Add(time.Minute))
	if !repeated && !expired {
		t.Errorf("after the restart: the answer is %+v", r)
	}
	s.unasked("a copy after the restart")
	s.AwaitRecord("the end of the update", func(r site.Record) bool {
		return r.Kind == site.KindUpdate && r.Outcome == site.Outcome(site.UpdateFellBack)
	})
	s.hidesSecret(t)
}

// hidesSecret fails if the secret is anywhere but at the web server.
func (s *updateSite) hidesSecret(t *testing.T) {
	t.Helper()
	told := s.Log() + s.board.Read("var/lib/gatehouse-update/state.json") + s.board.Read("run/gatehouse-update/status.json")
	for _, r := range s.Records() {
		told += string(r.AppendJSON(nil))
	}
	for _, leaf := range []api.Leaf{api.StatusLeaf, api.ResultLeaf, api.JournalLeaf} {
		for _, m := range s.app.on(leaf) {
			told += string(m.Payload)
		}
	}
	if !strings.Contains(told, "/1.3.0") || strings.Contains(told, updateSecret) {
		t.Error("the secret in the URL is told")
	}
}
