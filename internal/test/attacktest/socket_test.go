package attacktest_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/internal/health"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// What was possible: an administration socket that could not be created at the start, as on a disk
// without inodes, or was removed later, was missing until the next restart; nothing could
// administer the gateway, and after a removal nothing reported it.
func TestAttack_missingSocket(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "run")
	check(t, os.Mkdir(folder, 0o700))
	socket := filepath.Join(folder, "admin.sock")
	p := gatewaytest.Exec(t, gatewaytest.Launch{Socket: socket})
	_, err := p.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: gatewaytest.Email, Password: gatewaytest.Password, Admin: true})
	check(t, err)
	access, _ := p.Login()
	found := func() bool { // over the web: no socket can be asked
		answer := p.Do(http.MethodGet, "/admin/v1/status", access, nil)
		if answer.Status != http.StatusOK {
			t.Fatalf("status: %d %s", answer.Status, answer.Body)
		}
		return strings.Contains(string(answer.Body), `"`+string(health.NoAdminSocket)+`"`)
	}
	connects := func() bool {
		c, err := new(net.Dialer).DialContext(t.Context(), "unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	check(t, os.Remove(socket))
	p.Await("the removed socket is there again", connects)

	check(t, os.Rename(socket, socket+".own"))
	check(t, os.WriteFile(socket, []byte("another's"), 0o600))
	p.Await("the finding is raised", found)
	if text, err := os.ReadFile(socket); err != nil || string(text) != "another's" { //nolint:gosec // the test's own
		t.Errorf("the file in its place: %q, %v", text, err)
	}
	check(t, os.Remove(socket))
	p.Await("the socket is there again", connects)
	p.Await("the finding has gone", func() bool { return !found() })

	check(t, p.Stop())
	check(t, os.Rename(folder, folder+".away"))
	logged := strings.Count(p.Log(), "no administration socket")
	p.Start()
	p.Await("the start without it", func() bool { return strings.Count(p.Log(), "no administration socket") > logged })
	check(t, os.Rename(folder+".away", folder))
	p.AwaitReady() // by the socket
	p.Await("the finding of the start has gone", func() bool { return !raised(p, health.NoAdminSocket) })
	check(t, p.Stop())
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is left after the stop")
	}
}
