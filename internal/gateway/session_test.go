package gateway_test

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse/internal/config"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

const (
	sessionPath  = "/local/v1/session"
	chief        = "chief@example.test"
	chiefSecret  = "correct horse battery"
	chiefSignsIn = `{"email":"` + chief + `","password":"` + chiefSecret + `"}`
)

// visitor is a browser, as far as cookies go.
type visitor struct {
	*http.Client
	t    *testing.T
	base string
}

// visit returns a browser that trusts the gateway's authority.
func visit(t *testing.T, cfg config.Config, base string) *visitor {
	t.Helper()
	pool := x509.NewCertPool()
	if authority, err := os.ReadFile(filepath.Join(cfg.Data, "tls", "ca.crt")); err == nil {
		pool.AppendCertsFromPEM(authority)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{&http.Client{Jar: jar, Transport: transport}, t, base}
}

// asChief starts a gateway, and returns it with a browser in which an administrator has
// signed in.
func asChief(t *testing.T, cfg config.Config) (*gatewaytest.Gateway, *visitor) {
	t.Helper()
	g := gatewaytest.Start(t, cfg)
	if _, err := g.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: chief, Password: chiefSecret, Admin: true}); err != nil {
		t.Fatal(err)
	}
	v := visit(t, cfg, cmp.Or(g.HTTPS, g.HTTP))
	v.want(200, "POST", sessionPath, chiefSignsIn)
	return g, v
}

// open sends a request; the caller closes the body of its answer.
func (v *visitor) open(method, path, body string, header ...string) *http.Response {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := v.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp
}

// send sends a request and returns the status and the body of its answer.
func (v *visitor) send(method, path, body string, header ...string) (status int, text string) {
	v.t.Helper()
	resp := v.open(method, path, body, header...)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// want sends a request and compares the status of its answer.
func (v *visitor) want(status int, method, path, body string, header ...string) {
	v.t.Helper()
	if got, text := v.send(method, path, body, header...); got != status {
		v.t.Errorf("%s %s %s: %d %s, want %d", method, path, header, got, text, status)
	}
}

// An administrator signs in with a browser, over TLS and on the gateway's own machine,
// and administers. Signed out, the next request is refused and an open stream ends.
func TestGateway_session(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.TLSListen = []string{"127.0.0.1:0"}
	g := gatewaytest.Start(t, cfg)
	if _, err := g.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: chief, Password: chiefSecret, Admin: true}); err != nil {
		t.Fatal(err)
	}
	const accounts, watch = "/admin/v1/accounts", "/admin/v1/stations/watch"
	for _, base := range []string{g.HTTPS, g.HTTP} {
		v := visit(t, cfg, base)
		v.want(401, "GET", accounts, "")
		v.want(200, "POST", sessionPath, chiefSignsIn)
		v.want(200, "GET", accounts, "")
		v.want(201, "POST", accounts, `{"email":"`+strings.Trim(base[:5], ":")+`@example.test"}`)
		v.want(403, "POST", accounts, `{"email":"b@example.test"}`, "Sec-Fetch-Site", "same-site")
		v.want(403, "GET", watch, "", "Sec-Fetch-Site", "cross-site")
		v.want(421, "POST", sessionPath, chiefSignsIn, "Host", "evil.example")
		v.want(401, "GET", "/v1/stations/x", "")

		stream := v.open("GET", watch, "")
		v.want(204, "DELETE", sessionPath, "")
		if _, err := io.Copy(io.Discard, bufio.NewReader(stream.Body)); err != nil {
			t.Errorf("%s: the stream ends with %v", base, err)
		}
		_ = stream.Body.Close()
		v.want(401, "GET", accounts, "")
		v.want(401, "GET", sessionPath, "")

		v.want(200, "POST", sessionPath, chiefSignsIn)
		if _, err := g.Admin.Revoke(t.Context(), chief); err != nil {
			t.Fatal(err)
		}
		v.want(401, "GET", accounts, "")
	}
	if record := g.AwaitRecord("the account", func(r site.Record) bool {
		return r.Kind == site.KindAccountAdded && r.Origin == site.Admin && r.By == chief
	}); record.Email == "" {
		t.Errorf("the record is %+v", record)
	}
}

// An account that is no administrator sees its own doors alone. A plain listener for
// others takes no cookie, no sign-in and no administrator.
func TestGateway_sessionLimits(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.Listen = []string{"127.0.0.1:0", "0.0.0.0:0"}
	g := gatewaytest.Start(t, cfg)
	signIn := `{"email":"` + gatewaytest.Email + `","password":"` + gatewaytest.Password + `"}`
	v := visit(t, cfg, g.HTTP) // the last one
	v.want(404, "GET", "/admin/v1/accounts", "")
	v.want(200, "POST", sessionPath, signIn) // from this machine
	v.want(200, "GET", "/local/v1/stations", "")
	v.want(404, "GET", "/admin/v1/accounts", "")
	status, err := g.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v = visit(t, cfg, "http://"+status.Listeners[0].Address)
	v.want(200, "POST", sessionPath, signIn)
	v.want(403, "GET", "/admin/v1/accounts", "")
}

// A browser that signs in again, as another account too, leaves no session behind that
// nobody can sign out of; a wrong password ends none.
func TestGateway_signInAgain(t *testing.T) {
	g, v := asChief(t, gatewaytest.Configure(t))
	v.want(401, "POST", sessionPath, strings.Replace(chiefSignsIn, chiefSecret, "wrong horse battery", 1))
	v.want(200, "GET", sessionPath, "")
	first, err := g.Admin.Sessions(t.Context(), chief)
	if err != nil || len(first) != 1 {
		t.Fatalf("%d sessions, %v, want 1", len(first), err)
	}
	v.want(200, "POST", sessionPath, chiefSignsIn)
	again, err := g.Admin.Sessions(t.Context(), chief)
	if err != nil || len(again) != 1 || again[0].ID == first[0].ID {
		t.Errorf("%+v, %v, want one session, not %s", again, err, first[0].ID)
	}
	v.want(200, "POST", sessionPath, `{"email":"`+gatewaytest.Email+`","password":"`+gatewaytest.Password+`"}`)
	if left, err := g.Admin.Sessions(t.Context(), chief); err != nil || len(left) != 0 {
		t.Errorf("%d sessions are left, %v", len(left), err)
	}
	v.want(200, "GET", sessionPath, "")
}
