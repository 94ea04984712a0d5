package attacktest_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// What was possible: `sessions end-all` on a disk that hangs ended no session, because it stored
// a key first, and was lost when the gateway was killed; a login in flight was a session after
// it. Every session ends at once, and stays so.
func TestAttack_endAllOnHangingDisk(t *testing.T) {
	if !isolated(t, "mke2fs", "tune2fs") {
		return
	}
	disk := ext4(t)
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(disk, "data"), Env: []string{"RUNTIME_DIRECTORY=" + t.TempDir()}})
	if _, err := p.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: gatewaytest.Email, Password: gatewaytest.Password, Admin: true}); err != nil {
		t.Fatal(err)
	}
	access, refresh := p.Login()
	body := []byte(`{"refreshToken":"` + refresh + `"}`)
	thaw := freeze(t, disk)
	go func() { _, _ = p.Admin.EndAllSessions(t.Context()) }()
	p.Await("every session has ended", func() bool {
		return p.Do(http.MethodGet, "/admin/v1/accounts", access, nil).Status == http.StatusUnauthorized
	})
	if got := p.Do(http.MethodPost, "/v1/auth/refresh", "", body).Status; got != http.StatusUnauthorized {
		t.Errorf("refreshing while the disk hangs: %d", got)
	}
	if err := p.Process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	thaw()
	p.Kill()
	p.Start()
	p.AwaitReady()
	if got := p.Do(http.MethodPost, "/v1/auth/refresh", "", body).Status; got != http.StatusUnauthorized {
		t.Errorf("refreshing after a restart: %d", got)
	}
}
