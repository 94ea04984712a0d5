package attacktest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// What was possible: an administrator asked for a site with 251 accounts, which takes minutes
// of hashing on a small board, and was removed meanwhile. All 251 were stored, the first of them an
// administrator with a password of his choice. Nothing that he asked for is stored after
// his removal, and his request is answered as every later one is.
func TestAttack_changeOfRemovedAdministrator(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	if _, err := p.Admin.SetAdmin(t.Context(), gatewaytest.Email, true); err != nil {
		t.Fatal(err)
	}
	access, _ := p.Login()
	backdoor := true
	accounts := []sitefile.Account{{Email: "backdoor@example.test", Password: gatewaytest.Password, Admin: &backdoor}}
	for i := range 250 {
		accounts = append(accounts, sitefile.Account{Email: site.Email(fmt.Sprintf("a%d@example.test", i)), Password: gatewaytest.Password})
	}
	body, err := json.Marshal(adminapi.ApplyRequest{Site: sitefile.Site{Accounts: accounts}})
	if err != nil {
		t.Fatal(err)
	}
	status := afterAdmission(p, access, "/admin/v1/apply", body, func() {
		if err := p.Admin.RemoveAccount(t.Context(), gatewaytest.Email); err != nil {
			t.Error(err)
		}
	})
	if status != http.StatusUnauthorized {
		t.Errorf("applying: %d", status)
	}
	if all, err := p.Admin.Accounts(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%d accounts after the removal of the only one, %v", len(all), err)
	}
	if all := p.Records(); all[len(all)-1].Kind != site.KindAccountRemoved {
		t.Errorf("after the removal of the account there is %+v", all[len(all)-1])
	}
}

// afterAdmission sends a POST request and calls act once its sender has been admitted,
// which the gateway shows by asking for the body.
func afterAdmission(p *gatewaytest.Program, bearer, path string, body []byte, act func()) (status int) {
	p.T.Helper()
	content, arrives := io.Pipe()
	trace := &httptrace.ClientTrace{Got100Continue: func() {
		act()
		go func() { _, err := io.Copy(arrives, bytes.NewReader(body)); _ = arrives.CloseWithError(err) }()
	}}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(p.T.Context(), trace), http.MethodPost, p.HTTP+path, content)
	if err != nil {
		p.T.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+bearer)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Expect", "100-continue")
	r.ContentLength = int64(len(body))
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Hour}}
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	if err != nil {
		p.T.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}
