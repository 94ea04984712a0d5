package httpapi_test

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/httpapi"
)

// fakeSetup makes the first administrator for a client that knows "CODE-CODE".
type fakeSetup struct {
	open  bool
	fails error
	made  []string // email and password of each
}

func (s *fakeSetup) Open() bool { return s.open }

func (s *fakeSetup) Begin(_ context.Context, _ netip.Addr, code site.Secret, email string, password site.Secret) (site.Account, error) {
	switch {
	case s.fails != nil:
		return site.Account{}, s.fails
	case code != "CODE-CODE":
		return site.Account{}, fault.New(fault.Forbidden, "The setup code is wrong")
	}
	s.made = append(s.made, email+" "+password.Reveal())
	return site.Account{ID: "an-id", Email: site.Email(email)}, nil
}

const claim = `{"code":"CODE-CODE","email":"a@example.test","password":"correct \"horse\""}`

func TestSetup(t *testing.T) {
	w := newWorld(t)
	begin := request{method: "POST", path: "/local/v1/setup", body: claim}
	w.do(begin).want(t, 404, message("Not found"))
	w.setup.open = true
	w.do(begin).want(t, 201, `{"accountId":"an-id","email":"a@example.test"}`)
	if len(w.setup.made) != 1 || w.setup.made[0] != `a@example.test correct "horse"` {
		t.Errorf("made %q", w.setup.made)
	}
	for _, c := range []struct {
		body   string
		status int
		says   string
	}{
		{`{"code":"AAAA-AAAA","email":"a@example.test","password":"correct horse"}`, 403, "The setup code is wrong"},
		{`{"email":"a@example.test","password":"correct horse"}`, 400, "The field code is missing"},
		{`{"code":"CODE-CODE","password":"correct horse"}`, 400, "The field email is missing"},
		{`{"code":"CODE-CODE","email":"a@example.test","password":7}`, 400, "The field password must be a string"},
		{`[]`, 400, "The body is not a JSON object"},
	} {
		begin.body = c.body
		w.do(begin).want(t, c.status, message(c.says))
	}
	begin.body = claim
	w.setup.fails = fault.Throttle("Too many attempts; try again later", 7*time.Second)
	if got := w.do(begin); got.status != 429 || got.header.Get("Retry-After") != "7" {
		t.Errorf("throttled: %d %v", got.status, got.header)
	}
	w.setup.fails = fault.New(fault.NotFound, "Not found") // another client was quicker
	w.do(begin).want(t, 404, message("Not found"))
	if logs := w.logs.String(); strings.Contains(logs, "CODE-CODE") || strings.Contains(logs, "correct") {
		t.Errorf("the log has secrets:\n%s", logs)
	}
}

// The password does not cross the network in clear text.
func TestSetup_fromWhere(t *testing.T) {
	w := newWorld(t)
	w.setup.open = true
	const refused = `{"message":"The password would cross the network in clear text: use https, or the gateway's own machine"}`
	for _, c := range []struct {
		remote string
		tls    bool
		status int
		body   string
	}{
		{"192.168.1.7:5555", false, 403, refused},
		{"[2001:db8::7]:5555", false, 403, refused},
		{"", false, 403, refused},
		{"192.168.1.7:5555", true, 201, `{"accountId":"an-id","email":"a@example.test"}`},
		{"127.0.0.1:5555", false, 201, `{"accountId":"an-id","email":"a@example.test"}`},
		{"[::1]:5555", false, 201, `{"accountId":"an-id","email":"a@example.test"}`},
		{"[::ffff:127.0.0.1]:5555", false, 201, `{"accountId":"an-id","email":"a@example.test"}`},
	} {
		req := w.build(request{method: "POST", path: "/local/v1/setup", body: claim})
		req.RemoteAddr = c.remote
		rec := httptest.NewRecorder()
		w.web.Handler(c.tls, w.api.Routes(httpapi.Options{})).ServeHTTP(rec, req)
		response{rec.Code, rec.Header(), rec.Body.String()}.want(t, c.status, c.body)
	}
	w.setup.open = false
	req := w.build(request{method: "POST", path: "/local/v1/setup", body: claim})
	req.RemoteAddr = "192.168.1.7:5555"
	rec := httptest.NewRecorder()
	w.handler(httpapi.Options{}).ServeHTTP(rec, req)
	response{rec.Code, rec.Header(), rec.Body.String()}.want(t, 404, message("Not found"))
}
