package attacktest_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// bystander sends requests as a browser that is signed in sends them for pages of other
// sites, byte by byte.
type bystander struct {
	t      *testing.T
	addr   string
	secure bool
}

// send sends one request over a connection of its own and returns the status, the
// header and the body of the answer; 0 if there is none.
func (b bystander) send(text string) (status int, header http.Header, body string) {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.addr) //nolint:noctx // on loopback
	if err != nil {
		b.t.Fatal(err)
	}
	if b.secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the gateway's own certificate, on loopback
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, text) // a refusal may come, and the connection end, before all is written
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil, ""
	}
	defer func() { _ = resp.Body.Close() }()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(data)
}

// forgery is one request that no page of the gateway sends.
type forgery struct {
	name, line, headers string
	status              int
}

// forgeries are what other pages, names and programs can make of the cookie of an
// administrator's session, on a door of the gateway under host.
func forgeries(host, cookie, bearer string) []forgery {
	const open = "POST /admin/v1/stations/1042/locks/1/unlock HTTP/1.1\r\n"
	const read = "GET /admin/v1/accounts HTTP/1.1\r\n"
	at, with := "Host: "+host+"\r\n", "Cookie: "+cookie+"\r\n"
	return []forgery{
		{"cross-site post", open, at + with + "Sec-Fetch-Site: cross-site\r\n", 403},
		{"post of another port", open, at + with + "Sec-Fetch-Site: same-site\r\nOrigin: https://127.0.0.1:1\r\n", 403},
		{"old browser, other origin", open, at + with + "Origin: https://evil.example\r\n", 403},
		{"old browser, no origin", open, at + with + "Origin: null\r\n", 403},
		{"old browser, opaque form", open, at + with + "Origin: https://evil.example\r\nContent-Type: text/plain\r\n", 403},
		{"rebound name", open, "Host: evil.example\r\n" + with + "Sec-Fetch-Site: same-origin\r\nOrigin: http://evil.example\r\n", 421},
		{"rebound name, our port", open, "Host: evil.example:443\r\n" + with, 421},
		{"our name within another", open, "Host: localhost.evil.example\r\n" + with, 421},
		{"another name in the line", strings.Replace(open, " /", " http://evil.example/", 1), at + with, 421},
		{"read of another site", read, at + with + "Sec-Fetch-Site: cross-site\r\n", 403},
		{"read of a rebound name", read, "Host: evil.example\r\n" + with, 421},
		{"frame of another site", "GET / HTTP/1.1\r\n", "Host: evil.example\r\n" + with + "Sec-Fetch-Dest: iframe\r\n", 421},
		{"GET that opens", strings.Replace(open, "POST", "GET", 1), at + with, 405},
		{"HEAD that opens", strings.Replace(open, "POST", "HEAD", 1), at + with, 405},
		{"override by header", strings.Replace(open, "POST", "GET", 1), at + with + "X-HTTP-Method-Override: POST\r\n", 405},
		{"two cookies in one header", open, at + "Cookie: " + cookie + "; " + cookie + "\r\n", 401},
		{"two cookie headers", open, at + with + with, 401},
		{"cookie and a wrong token", open, at + with + "Authorization: Bearer " + bearer + "x\r\n", 401},
		{"cookie and a scheme of its own", open, at + with + "Authorization: Basic eDp4\r\n", 401},
		{"cookie in quotes", open, at + "Cookie: " + strings.Replace(cookie, "=", `="x`, 1) + "\"\r\n", 401},
		{"cookie in capitals", open, at + "Cookie: " + strings.ToUpper(cookie[:10]) + cookie[10:] + "\r\n", 401},
		{"access token as cookie", open, at + "Cookie: " + strings.Split(cookie, "=")[0] + "=" + bearer + "\r\n", 401},
		{"cookie as bearer", open, at + "Authorization: Bearer " + strings.Split(cookie, "=")[1] + "\r\n", 401},
		{"20 KB of cookies", open, at + "Cookie: a=" + strings.Repeat("a", 20<<10) + "; " + cookie + "\r\n", 431},
		{"restart of another site", "POST /admin/v1/restart HTTP/1.1\r\n", at + with + "Sec-Fetch-Site: cross-site\r\n", 403},
		{"sign-out of another site", "DELETE /local/v1/session HTTP/1.1\r\n", at + with + "Sec-Fetch-Site: cross-site\r\n", 403},
		{"cookie on /v1", "POST /v1/auth/revoke HTTP/1.1\r\n", at + with, 401},
		{"all sessions by cookie", "POST /v1/auth/revoke-all HTTP/1.1\r\n", at + with, 401},
	}
}

// A cookie comes with each request of a browser, also with those that a page of another
// site, of another port or under another name of the same address has it send. None of
// them opened a door, read anything or ended a session.
func TestAttack_foreignPages(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0"}})
	p.AddAccount()
	p.Enrol(1042)
	if _, err := p.Admin.SetAdmin(t.Context(), gatewaytest.Email, true); err != nil {
		t.Fatal(err)
	}
	bearer, _ := p.Login()
	for _, b := range []bystander{{t, strings.TrimPrefix(p.HTTPS, "https://"), true}, {t, strings.TrimPrefix(p.HTTP, "http://"), false}} {
		cookie := b.signIn("")
		for _, f := range forgeries(b.addr, cookie, bearer) {
			status, header, body := b.send(f.line + f.headers + "Content-Length: 0\r\nConnection: close\r\n\r\n")
			if status != f.status || header.Get("Set-Cookie") != "" {
				t.Errorf("tls %t, %s: %d %s %v, want %d", b.secure, f.name, status, body, header, f.status)
			}
		}
		known := func(c string) int {
			status, _, _ := b.send("GET /local/v1/session HTTP/1.1\r\nHost: " + b.addr + "\r\nCookie: " + c + "\r\nConnection: close\r\n\r\n")
			return status
		}
		if status := known(cookie); status != 200 {
			t.Errorf("tls %t: the session has ended: %d", b.secure, status)
		}
		// A planted cookie is not taken up by the sign-in of someone else; its session ends.
		planted := cookie
		if cookie = b.signIn("Cookie: " + planted + "\r\n"); cookie == planted || known(planted) != 401 {
			t.Errorf("tls %t: the planted session was taken up, or is left: %d", b.secure, known(planted))
		}
		if status := known(cookie); status != 200 {
			t.Errorf("tls %t: the new session: %d", b.secure, status)
		}
		other, isHost := strings.CutPrefix(cookie, "__Host-")
		if !isHost {
			other = "__Host-" + cookie
		}
		if status := known(other); status != 401 {
			t.Errorf("tls %t: the cookie of the other kind: %d", b.secure, status)
		}
		status, _, _ := b.send("DELETE /local/v1/session HTTP/1.1\r\nHost: " + b.addr + "\r\nCookie: " + cookie + "\r\nConnection: close\r\n\r\n")
		if status != 204 || known(cookie) != 401 {
			t.Errorf("tls %t: signed out by %d, and then %d", b.secure, status, known(cookie))
		}
	}
	for _, r := range p.Records() {
		if r.Kind == site.KindUnlock {
			t.Errorf("a lock was asked for: %+v", r)
		}
	}
	if _, err := p.Admin.Unlock(t.Context(), 1042, 1); err != nil {
		t.Errorf("the gateway is gone: %v", err)
	}
}

// signIn signs in with further headers and returns the cookie, as name=value.
func (b bystander) signIn(headers string) string {
	b.t.Helper()
	body := `{"email":"` + gatewaytest.Email + `","password":"` + gatewaytest.Password + `"}`
	status, header, answer := b.send(fmt.Sprintf("POST /local/v1/session HTTP/1.1\r\nHost: %s\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		b.addr, headers, len(body), body))
	all := header.Values("Set-Cookie")
	cookie, rest, _ := strings.Cut(strings.Join(all[max(len(all)-1, 0):], ""), ";") // the other is that of the device
	if status != 200 || !strings.Contains(rest, "HttpOnly") || !strings.Contains(rest, "SameSite=Strict") || strings.Contains(rest, "Secure") != b.secure ||
		strings.HasPrefix(cookie, "__Host-") != b.secure {
		b.t.Fatalf("sign-in: %d %s %v", status, answer, header)
	}
	return cookie
}

// A browser sends a cookie to every port of a host. A server on another port gets no token
// with what it reads there, and the sign-in at one gateway does not replace that at another.
func TestAttack_cookieOfAnotherPort(t *testing.T) {
	t.Parallel()
	browser := deviceAt(t, "127.0.0.1")
	var gateways []*gatewaytest.Program
	for range 2 {
		p := gatewaytest.Exec(t, gatewaytest.Launch{})
		p.AddAccount()
		gateways = append(gateways, p)
		if status, _ := browser.post(t.Context(), p.HTTP+"/local/v1/session", map[string]string{"email": gatewaytest.Email, "password": gatewaytest.Password}); status != http.StatusOK {
			t.Fatalf("the sign-in is answered with %d", status)
		}
	}
	for i, p := range gateways {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.HTTP+"/local/v1/session", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("gateway %d does not know the browser any more: %d", i, resp.StatusCode)
		}
		for _, c := range browser.Jar.Cookies(req.URL) {
			if status, _ := phoneAt("127.0.0.1").post(t.Context(), p.HTTP+"/v1/auth/refresh", map[string]string{"refreshToken": c.Value}); status != http.StatusUnauthorized {
				t.Errorf("gateway %d: %s is a refresh token: %d", i, c.Name, status)
			}
		}
	}
}

// A page over plain HTTP that bears the gateway's own name, such as /trust as someone on
// the way has changed it, opens nothing over HTTPS, in a browser that names no site.
func TestAttack_plainPageOfOurName(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0"}})
	p.AddAccount()
	issued := p.Enrol(1042)
	b := bystander{t, strings.TrimPrefix(p.HTTPS, "https://"), true}
	cookie := b.signIn("")
	for scheme, want := range map[string]int{"http://": 403, "https://": 200} {
		status, _, body := b.send("POST /local/v1/stations/" + issued.StationToken + "/locks/1/unlock HTTP/1.1\r\nHost: " + b.addr +
			"\r\nOrigin: " + scheme + b.addr + "\r\nCookie: " + cookie + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if status != want {
			t.Errorf("a page of %s: %d %s, want %d", scheme, status, body, want)
		}
	}
}
