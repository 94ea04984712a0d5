package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gatehouse/internal/test/await"
	"gatehouse/internal/web/httpapi"
)

const (
	sessionPath = "/local/v1/session"
	signedIn    = `{"accountId":"` + string(account) + `","email":"` + email + `","admin":false}`
	secure      = "__Host-gatehouse-" + string(gatewayID) + "=" + sessionCookie
	plain       = "gatehouse-" + string(gatewayID) + "=" + sessionCookie
	device      = "gatehouse-device-" + string(gatewayID) + "=" + deviceSecret
	anyOrigin   = `{"message":"Forbidden: a page of another origin sent this"}`
	noHost      = `{"message":"This gateway does not know the name in the address: use its IP address or its own name, which \"name\" in the configuration sets"}`
	clearText   = `{"message":"The password would cross the network in clear text: use https, or the gateway's own machine"}`
	badToken    = `{"message":"Token is invalid"}`
)

// visit is a request of a browser.
type visit struct {
	method, path, body string
	plain              bool   // else TLS
	remote             string // "": another machine
	host               string // "": gate.local
	header             http.Header
}

// visit sends it, without a network.
func (w *world) visit(v visit) response {
	w.t.Helper()
	req := w.build(request{method: v.method, path: v.path, body: v.body})
	req.Host, req.RemoteAddr = "gate.local", "192.168.1.7:5555"
	if v.host != "" {
		req.Host = v.host
	}
	if v.remote != "" {
		req.RemoteAddr = v.remote
	}
	for name, values := range v.header {
		req.Header[name] = values
	}
	rec := httptest.NewRecorder()
	w.web.Handler(!v.plain, w.api.Routes(httpapi.Options{})).ServeHTTP(rec, req)
	got := response{rec.Code, rec.Header(), rec.Body.String()}
	checkAny(w.t, v.method, got)
	return got
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// A browser signs in, is known by its cookie, and signs out.
func TestSession(t *testing.T) {
	w := newWorld(t)
	in := w.visit(visit{method: "POST", path: sessionPath, body: goodLogin})
	in.want(t, 200, signedIn)
	const kept = "; Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=Strict"
	if got, want := cookies(in), device+kept+" | "+secure+kept; got != want {
		t.Errorf("the cookies are %q, want %q", got, want)
	}
	w.visit(visit{method: "GET", path: sessionPath, header: header("Cookie", secure)}).want(t, 200, signedIn)
	w.visit(visit{method: "HEAD", path: sessionPath, header: header("Cookie", secure)}).want(t, 200, signedIn) // a recorder keeps it
	if got := w.visit(visit{method: "GET", path: "/local/v1/stations", header: header("Cookie", secure)}); got.status != 200 {
		t.Errorf("the stations: %d %s", got.status, got.body)
	}
	out := w.visit(visit{method: "DELETE", path: sessionPath, header: header("Authorization", "Bearer "+accessToken)})
	out.want(t, 204, "")
	if got, want := out.header.Get("Set-Cookie"), "__Host-gatehouse-"+string(gatewayID)+"=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Strict"; got != want {
		t.Errorf("the cookie is %q, want %q", got, want)
	}
	w.visit(visit{method: "GET", path: sessionPath, header: header("Cookie", secure)}).want(t, 401, badToken)
	w.visit(visit{method: "DELETE", path: sessionPath, header: header("Cookie", secure)}).want(t, 204, "") // whose end could not be stored yet
	if got := strings.Join(w.access.ended, ","); got != "session "+string(session)+",session by cookie" {
		t.Errorf("ended %s", got)
	}
	if strings.Contains(w.logs.String(), sessionCookie) || strings.Contains(w.logs.String(), deviceSecret) {
		t.Error("the log has a secret")
	}
}

// On plain HTTP the cookie has another name, and serves the gateway's own machine alone.
func TestSession_plain(t *testing.T) {
	w := newWorld(t)
	const here = "127.0.0.1:5555"
	in := w.visit(visit{method: "POST", path: sessionPath, body: goodLogin, plain: true, remote: here})
	in.want(t, 200, signedIn)
	const kept = "; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict"
	if got, want := cookies(in), device+kept+" | "+plain+kept; got != want {
		t.Errorf("the cookies are %q, want %q", got, want)
	}
	known := header("Cookie", plain)
	w.visit(visit{method: "GET", path: sessionPath, header: known, plain: true, remote: here}).want(t, 200, signedIn)
	w.visit(visit{method: "GET", path: sessionPath, header: known, plain: true}).want(t, 403, clearText)
	w.visit(visit{method: "POST", path: sessionPath, body: goodLogin, plain: true}).want(t, 403, clearText)
	w.visit(visit{method: "GET", path: sessionPath, header: known}).want(t, 401, badToken) // over TLS it is no cookie of ours
	w.visit(visit{method: "GET", path: sessionPath, header: header("Cookie", secure), plain: true, remote: here}).want(t, 401, badToken)
}

// What a page of another site, or a name that points here, can make a browser send.
func TestSession_foreignPages(t *testing.T) {
	w := newWorld(t)
	w.setup.open = true
	origin := func(pairs ...string) http.Header { return header(append(pairs, "Cookie", secure)...) }
	unlock := "/local/v1/stations/" + stationToken + "/locks/1/unlock"
	for name, c := range map[string]struct {
		visit
		status int
		body   string
	}{
		"read, another site":        {visit{method: "GET", path: "/local/v1/stations", header: origin("Sec-Fetch-Site", "cross-site")}, 403, anyOrigin},
		"read, another port":        {visit{method: "GET", path: "/local/v1/stations", header: origin("Sec-Fetch-Site", "same-site")}, 403, anyOrigin},
		"read, another host":        {visit{method: "GET", path: "/local/v1/stations", host: "evil.example", header: origin()}, 421, noHost},
		"sign in, another site":     {visit{method: "POST", path: sessionPath, body: goodLogin, header: header("Sec-Fetch-Site", "cross-site")}, 403, anyOrigin},
		"sign in, old browser":      {visit{method: "POST", path: sessionPath, body: goodLogin, header: header("Origin", "https://evil.example")}, 403, anyOrigin},
		"sign in, no origin":        {visit{method: "POST", path: sessionPath, body: goodLogin, header: header("Origin", "null")}, 403, anyOrigin},
		"sign in, another host":     {visit{method: "POST", path: sessionPath, body: goodLogin, host: "evil.example:443"}, 421, noHost},
		"sign in, beside our name":  {visit{method: "POST", path: sessionPath, body: goodLogin, host: "gate.local.evil.example"}, 421, noHost},
		"setup, another host":       {visit{method: "POST", path: "/local/v1/setup", body: claim, host: "evil.example"}, 421, noHost},
		"setup, another site":       {visit{method: "POST", path: "/local/v1/setup", body: claim, header: header("Sec-Fetch-Site", "cross-site")}, 403, anyOrigin},
		"unlock, another site":      {visit{method: "POST", path: unlock, header: origin("Sec-Fetch-Site", "cross-site")}, 403, anyOrigin},
		"unlock, old browser":       {visit{method: "POST", path: unlock, header: origin("Origin", "http://gate.local:8080")}, 403, anyOrigin},
		"unlock, another host":      {visit{method: "POST", path: unlock, host: "evil.example", header: origin()}, 421, noHost},
		"unlock by GET":             {visit{method: "GET", path: unlock, header: origin()}, 405, message("Method not allowed")},
		"unlock by HEAD":            {visit{method: "HEAD", path: unlock, header: origin()}, 405, message("Method not allowed")},
		"sign out, another site":    {visit{method: "DELETE", path: sessionPath, header: origin("Sec-Fetch-Site", "cross-site")}, 403, anyOrigin},
		"two cookies":               {visit{method: "GET", path: sessionPath, header: header("Cookie", secure+"; "+secure)}, 401, badToken},
		"two Cookie headers":        {visit{method: "GET", path: sessionPath, header: header("Cookie", secure, "Cookie", secure)}, 401, badToken},
		"cookie and wrong token":    {visit{method: "GET", path: sessionPath, header: origin("Authorization", "Bearer x")}, 401, badToken},
		"cookie and another scheme": {visit{method: "GET", path: sessionPath, header: origin("Authorization", "Basic eA==")}, 401, badToken},
		"cookie that is no token":   {visit{method: "GET", path: sessionPath, header: header("Cookie", "__Host-gatehouse-"+string(gatewayID)+"=x")}, 401, badToken},
		"refresh token as cookie":   {visit{method: "GET", path: sessionPath, header: header("Cookie", "__Host-gatehouse-"+string(gatewayID)+"="+refreshToken)}, 401, badToken},
		"cookie of another gateway": {visit{method: "GET", path: sessionPath, header: header("Cookie", "__Host-gatehouse-"+string(boot)+"="+sessionCookie)}, 401, badToken},
		"cookie of another name":    {visit{method: "GET", path: sessionPath, header: header("Cookie", plain)}, 401, badToken},
		"v1 takes no cookie":        {visit{method: "GET", path: "/v1/stations/" + stationToken, header: origin()}, 401, badToken},
		"v1 revokes by no cookie":   {visit{method: "POST", path: "/v1/auth/revoke", header: origin()}, 401, badToken},
		"a form":                    {visit{method: "POST", path: sessionPath, body: "email=a", header: header("Content-Type", "text/plain")}, 415, message("Content-Type must be application/json")},
		"a body of 1 MB":            {visit{method: "POST", path: sessionPath, body: strings.Repeat(" ", 1<<20)}, 413, message("The body is too large: 16 KiB at most")},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.visit(c.visit)
			got.want(t, c.status, strings.TrimSuffix(c.body, "\n"))
			if got.header.Get("Set-Cookie") != "" {
				t.Error("it sets a cookie")
			}
		})
	}
	if len(w.unlocker.requests) != 0 || len(w.access.ended) != 0 || len(w.setup.made) != 0 {
		t.Error("something was done")
	}
}

// A page of this origin, the address line and a client that is no browser are admitted,
// by any name of the gateway.
func TestSession_ownPages(t *testing.T) {
	w := newWorld(t)
	for _, host := range []string{"gate.local", "GATE.local.:8443", "localhost:8080", "192.168.1.2", "[fd00::7]:443", "a.doors.example.test"} {
		for _, h := range []http.Header{
			header(), header("Sec-Fetch-Site", "same-origin"), header("Sec-Fetch-Site", "none"), header("Origin", "https://"+host),
		} {
			w.visit(visit{method: "POST", path: sessionPath, body: goodLogin, host: host, header: h}).want(t, 200, signedIn)
			h.Set("Cookie", secure)
			w.visit(visit{method: "GET", path: sessionPath, host: host, header: h}).want(t, 200, signedIn)
		}
	}
	for _, host := range []string{"doors.example.test", "a.b.doors.example.test", "gate", "local", "xgate.local", "127.0.0.1.evil.example", "gate.local:80:80"} {
		if got := w.visit(visit{method: "GET", path: sessionPath, host: host, header: header("Cookie", secure)}); got.status != 421 {
			t.Errorf("%s: %d %s", host, got.status, got.body)
		}
	}
}

// A sign-in never takes up the session that the browser came with.
func TestSession_fixation(t *testing.T) {
	w := newWorld(t)
	planted := header("Cookie", "__Host-gatehouse-"+string(gatewayID)+"=0a5cafe0")
	got := w.visit(visit{method: "POST", path: sessionPath, body: goodLogin, header: planted})
	got.want(t, 200, signedIn)
	if got := cookies(got); !strings.Contains(got, " | "+secure+";") {
		t.Errorf("the cookies are %q", got)
	}
}

func TestSession_wrongPassword(t *testing.T) {
	w := newWorld(t)
	got := w.visit(visit{method: "POST", path: sessionPath, body: `{"email":"` + email + `","password":"wrong"}`})
	got.want(t, 401, message("Invalid credentials"))
	if got.header.Get("Set-Cookie") != "" {
		t.Error("it sets a cookie")
	}
}

// A stream that was opened with a cookie ends with its session.
func TestSession_stream(t *testing.T) {
	w := newWorld(t)
	req := w.build(request{method: "GET", path: "/local/v1/stations/" + stationToken + "/events", header: map[string]string{"Cookie": plain}})
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("it begins with %d", resp.StatusCode)
	}
	w.access.with(func() { w.access.ended = append(w.access.ended, "session "+string(session)) })
	await.Until(t, "the end of the stream", func() bool { return w.stations.followers() == 0 })
}
