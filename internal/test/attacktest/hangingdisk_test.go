package attacktest_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// onHangingDisk starts a gateway on a disk that [freeze] has hang; nil outside of the
// namespaces of the test.
func onHangingDisk(t *testing.T, env ...string) (p *gatewaytest.Program, disk string) {
	t.Helper()
	if !isolated(t, "mke2fs", "tune2fs") {
		return nil, ""
	}
	disk = ext4(t)
	env = append(env, "RUNTIME_DIRECTORY="+t.TempDir())
	return gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(disk, "data"), Env: env}), disk
}

// addAdministrator adds the account of [gatewaytest.Email] as that of an administrator.
func addAdministrator(t *testing.T, p *gatewaytest.Program) {
	t.Helper()
	if _, err := p.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: gatewaytest.Email, Password: gatewaytest.Password, Admin: true}); err != nil {
		t.Fatal(err)
	}
}

// What was possible: `sessions end-all` on a disk that hangs ended no session, because it stored
// a key first, and was lost when the gateway was killed; a login in flight was a session after
// it. Every session ends at once, and stays so.
func TestAttack_endAllOnHangingDisk(t *testing.T) {
	p, disk := onHangingDisk(t)
	if p == nil {
		return
	}
	addAdministrator(t, p)
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

// What was possible: strangers whose logins waited for a disk that hung had every place for
// changes, and an administrator and root were refused. Each class of callers has places of its
// own.
func TestAttack_loginsOnHangingDisk(t *testing.T) {
	p, disk := onHangingDisk(t, "GATEHOUSE_LOGIN_HASH_MEMORY=7MiB", "GATEHOUSE_LOGIN_HASH_TIME=1")
	if p == nil {
		return
	}
	addAdministrator(t, p)
	if _, err := p.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: insider, Password: gatewaytest.Password}); err != nil {
		t.Fatal(err)
	}
	login := func(client phone, email string) (status int) {
		status, _ = client.post(await.Context(t), p.HTTP+"/v1/auth/login", map[string]string{"email": email, "password": gatewaytest.Password})
		return status
	}
	access, _ := p.Login()
	lost, _ := p.Login()
	sessions, err := p.Admin.Sessions(t.Context(), gatewaytest.Email)
	if err != nil || len(sessions) != 2 {
		t.Fatalf("%d sessions, %v", len(sessions), err)
	}
	known := deviceAt(t, "127.0.0.9")
	if status := login(known, gatewaytest.Email); status != http.StatusOK {
		t.Fatalf("a login is answered with %d", status)
	}
	dead := func(token string) func() bool {
		return func() bool {
			return p.Do(http.MethodGet, "/local/v1/stations", token, nil).Status == http.StatusUnauthorized
		}
	}

	thaw := freeze(t, disk)
	const strangers, tries = 300, 30
	var all sync.WaitGroup
	var over atomic.Int64
	for n := range strangers {
		all.Go(func() {
			defer over.Add(1)
			client := phoneAt(fmt.Sprintf("127.0.1.%d", 1+n/2))
			for range tries {
				if login(client, insider) != http.StatusTooManyRequests {
					return
				}
				wait(t.Context(), 100*time.Millisecond)
			}
		})
	}
	p.Await("each stranger waits, or is refused again and again", func() bool {
		return int(over.Load())+metricOf(p, "\ngatehouse_http_requests_in_flight ") > strangers
	})

	ask := func(what string, change func() int) {
		all.Go(func() {
			if status := change(); status == http.StatusTooManyRequests {
				t.Errorf("%s: %d", what, status)
			}
		})
	}
	ask("an administrator ends a session", func() int {
		return p.Do(http.MethodDelete, "/admin/v1/accounts/"+gatewaytest.Email+"/sessions/"+string(sessions[1].ID), access, nil).Status
	})
	p.Await("the session has ended", dead(lost))
	ask("a known device logs in", func() int { return login(known, gatewaytest.Email) })
	ask("root ends all sessions of an account", func() int {
		if _, err := p.Admin.Revoke(t.Context(), gatewaytest.Email); fault.Is(err, fault.Throttled) {
			return http.StatusTooManyRequests
		}
		return http.StatusOK
	})
	p.Await("all sessions have ended", dead(access))
	thaw()
	all.Wait()
}

// What was possible: one account that ended its session again and again, from some addresses,
// while the disk hung, had every place for changes of accounts. Who ended the session of a lost
// phone then was refused, and that phone opened doors.
func TestAttack_revokeOnHangingDisk(t *testing.T) {
	p, disk := onHangingDisk(t)
	if p == nil {
		return
	}
	addAdministrator(t, p)
	own, refreshOwn := p.Login()
	lost, refreshLost := p.Login()
	revoke := func(client phone, refresh string) (status int) {
		status, _ = client.post(await.Context(t), p.HTTP+"/v1/auth/revoke", map[string]string{"refreshToken": refresh})
		return status
	}
	thaw := freeze(t, disk)
	const addresses, each = 12, 40
	var all sync.WaitGroup
	var over atomic.Int64
	for n := range addresses * each {
		all.Go(func() {
			defer over.Add(1)
			revoke(phoneAt(fmt.Sprintf("127.0.2.%d", 1+n/each)), refreshOwn)
		})
	}
	p.Await("each request waits, or is refused", func() bool {
		return int(over.Load())+metricOf(p, "\ngatehouse_http_requests_in_flight ") > addresses*each
	})
	if status := p.Do(http.MethodGet, "/local/v1/stations", own, nil).Status; status != http.StatusUnauthorized {
		t.Errorf("the session of the attacker: %d", status)
	}
	if status := revoke(phoneAt("127.0.0.1"), refreshLost); status != http.StatusServiceUnavailable {
		t.Errorf("the end of the lost session is answered with %d", status)
	}
	if status := p.Do(http.MethodGet, "/local/v1/stations", lost, nil).Status; status != http.StatusUnauthorized {
		t.Errorf("the lost session: %d", status)
	}
	thaw()
	all.Wait()
}
