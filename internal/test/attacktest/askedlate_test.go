package attacktest_test

import (
	"net/http"
	"testing"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// What was possible: an administrator asked for an account, a token or a login while the disk
// hung, and was removed. What he had asked for was stored when the disk answered again. It is
// refused as his later requests are.
func TestAttack_askedOnHangingDisk(t *testing.T) {
	p, disk := onHangingDisk(t)
	if p == nil {
		return
	}
	for _, c := range []struct{ path, body string }{
		{"/admin/v1/accounts", `{"email":"backdoor@example.test","password":"` + gatewaytest.Password + `","admin":true}`},
		{"/admin/v1/tokens", `{"name":"spare key","scopes":["unlock:*"]}`},
		{"/v1/auth/login", `{"email":"` + gatewaytest.Email + `","password":"` + gatewaytest.Password + `"}`},
	} {
		addAdministrator(t, p)
		access, _ := p.Login()
		thaw := freeze(t, disk)
		asked, removed := make(chan int, 1), make(chan error, 1)
		go func() { asked <- p.Do(http.MethodPost, c.path, access, []byte(c.body)).Status }()
		p.Await("the disk hangs", func() bool { return raised(p, health.StorageFailing) })
		go func() { removed <- p.Admin.RemoveAccount(t.Context(), gatewaytest.Email) }()
		p.Await("the account is removed", func() bool {
			return p.Do(http.MethodGet, "/admin/v1/accounts", access, nil).Status == http.StatusUnauthorized
		})
		thaw()
		if status := <-asked; status != http.StatusUnauthorized {
			t.Errorf("%s: %d", c.path, status)
		}
		if err := <-removed; err != nil {
			t.Error(err)
		}
		for _, r := range p.Records() {
			if r.Kind == site.KindAccountAdded && string(r.Email) != gatewaytest.Email || r.Kind == site.KindTokenAdded {
				t.Errorf("%s: stored: %+v", c.path, r)
			}
		}
		p.Await("the disk works again", func() bool { return !raised(p, health.StorageFailing) })
	}
	if all, err := p.Admin.Accounts(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%d accounts, %v", len(all), err)
	}
}
