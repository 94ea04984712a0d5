package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/access"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

const goodLogin = `{"email":"` + email + `","password":"` + password + `"}`

func TestLogin(t *testing.T) {
	w := newWorld(t)
	got := w.do(request{method: "POST", path: "/v1/auth/login", body: goodLogin})
	got.want(t, 200, `{"accessToken":"`+accessToken+`","refreshToken":"`+refreshToken+`"}`)
	if from := w.access.from; from != (access.Client{Remote: netip.MustParseAddr("127.0.0.1"), Name: "Go-http-client"}) {
		t.Errorf("the login came from %v", from)
	}
	if got := cookies(got); got != device+"; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict" {
		t.Errorf("the cookies are %q", got)
	}
}

// A login shows the device's secret, if it is one cookie of this gateway's name.
func TestLogin_device(t *testing.T) {
	w := newWorld(t)
	for cookie, shown := range map[string]site.Secret{
		device:                 deviceSecret,
		device + "; " + device: "",
		"gatehouse-device=x":   "",
		"gatehouse-device-" + string(boot) + "=x": "",
	} {
		w.do(request{method: "POST", path: "/v1/auth/login", body: goodLogin, header: map[string]string{"Cookie": cookie}})
		if got := w.access.from.Device; got != shown {
			t.Errorf("%s shows %q", cookie, got.Reveal())
		}
		if strings.Contains(w.logs.String(), deviceSecret) {
			t.Fatal("the log has the secret")
		}
	}
}

// cookies returns what an answer has the client keep.
func cookies(r response) string { return strings.Join(r.header.Values("Set-Cookie"), " | ") }

func TestLogin_wrongCredentials(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{
		`{"email":"` + email + `","password":"wrong"}`,
		`{"email":"nobody@example.test","password":"` + password + `"}`,
		`{"email":"not an address","password":"x"}`,
		`{"email":"a\u0000b","password":"\ud800"}`,
	} {
		got := w.do(request{method: "POST", path: "/v1/auth/login", body: body, header: map[string]string{"Cookie": device}})
		got.want(t, 401, message("Invalid credentials"))
		if cookies(got) != "" {
			t.Error("it sets a cookie")
		}
	}
}

func TestRefresh(t *testing.T) {
	w := newWorld(t)
	post := func(body string) response {
		return w.do(request{method: "POST", path: "/v1/auth/refresh", body: body})
	}
	post(`{"refreshToken":"`+refreshToken+`"}`).want(t, 200, `{"accessToken":"`+newAccess+`"}`)
	post(`{"refreshToken":"0a5cafe0-0000-4000-8000-000000000009"}`).want(t, 401, message("Token is invalid"))
	post(`{"refreshToken":"no uuid"}`).want(t, 401, message("Token is invalid"))
	post(`{"refreshToken":""}`).want(t, 400, message("The field refreshToken is missing"))
	post(`{"refreshToken":7}`).want(t, 400, message("The field refreshToken must be a string"))
	post(`{}`).want(t, 400, message("The field refreshToken is missing"))
	post(``).want(t, 400, message("The field refreshToken is missing"))
	post(`{`).want(t, 400, message("The body is not a JSON object"))
}

func TestRevoke(t *testing.T) {
	const good, bad = `{"refreshToken":"` + refreshToken + `"}`, `{"refreshToken":"0a5cafe0-0000-4000-8000-000000000009"}`
	invalid, missing := message("Token is invalid"), message("The field refreshToken is missing")
	for name, c := range map[string]struct {
		bearer, body string
		status       int
		want         string
		one, all     string // what has ended
	}{
		"refresh token":            {"", good, 200, `{"success":true}`, "session by refresh", "account by refresh"},
		"bearer":                   {accessToken, "", 200, `{"success":true}`, "session " + string(session), "account " + string(account)},
		"bearer, empty object":     {accessToken, "{}", 200, `{"success":true}`, "session " + string(session), "account " + string(account)},
		"bearer, no text":          {accessToken, `{"refreshToken":""}`, 200, `{"success":true}`, "session " + string(session), "account " + string(account)},
		"both":                     {accessToken, good, 200, `{"success":true}`, "session by refresh", "account by refresh"},
		"dead bearer, refresh":     {"dead", good, 200, `{"success":true}`, "session by refresh", "account by refresh"},
		"bearer of an ending one":  {endingAccess, "", 200, `{"success":true}`, "session ending", "account " + string(account)},
		"bearer, unknown refresh":  {accessToken, bad, 401, invalid, "", ""},
		"unknown refresh":          {"", bad, 401, invalid, "", ""},
		"unknown bearer":           {"dead", "", 401, invalid, "", ""},
		"unknown bearer, no field": {"dead", "{}", 401, invalid, "", ""},
		"nothing":                  {"", "", 401, invalid, "", ""},
		"empty object":             {"", "{}", 400, missing, "", ""},
		"wrong type":               {accessToken, `{"refreshToken":1}`, 400, message("The field refreshToken must be a string"), "", ""},
		"malformed":                {accessToken, `{`, 400, message("The body is not a JSON object"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := request{method: "POST", path: "/v1/auth/revoke", bearer: c.bearer, body: c.body}
			w.do(r).want(t, c.status, c.want)
			r.path = "/v1/auth/revoke-all"
			w.do(r).want(t, c.status, c.want)
			if got, want := strings.Join(w.access.ended, ","), strings.Trim(c.one+","+c.all, ","); got != want {
				t.Errorf("ended %q, want %q", got, want)
			}
		})
	}
}

// A body that is not JSON is no body that names nobody.
func TestRevoke_contentType(t *testing.T) {
	w := newWorld(t)
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	got := w.do(request{method: "POST", path: "/v1/auth/revoke", bearer: accessToken, body: "refreshToken=x", header: form})
	got.want(t, 415, message("Content-Type must be application/json"))
	got = w.do(request{method: "POST", path: "/v1/auth/revoke", bearer: accessToken, header: form})
	got.want(t, 200, `{"success":true}`)
}

// A logout goes through although the client has gone.
func TestRevoke_clientGone(t *testing.T) {
	w := newAPI(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.serveOnce(ctx, request{method: "POST", path: "/v1/auth/revoke", bearer: accessToken})
	if len(w.access.ended) != 1 || w.access.leaving {
		t.Errorf("ended %v, with a context that had ended: %v", w.access.ended, w.access.leaving)
	}
}

func TestLogin_clientGone(t *testing.T) {
	w := newAPI(t, 0)
	w.access.fail = context.Canceled
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got := w.serveOnce(ctx, request{method: "POST", path: "/v1/auth/login", body: goodLogin})
	got.want(t, 503, message("Request cancelled"))
	if strings.Contains(w.logs.String(), "ERROR") {
		t.Errorf("a client that leaves is nobody's error: %s", w.logs)
	}
}

// Every kind of error has a status of its own choosing, and the answer says no more
// than the sentence.
func TestFail_everyKind(t *testing.T) {
	want := map[fault.Kind]int{
		fault.Internal: 500, fault.Invalid: 400, fault.Unauthenticated: 401, fault.Forbidden: 403, fault.NotFound: 404,
		fault.Conflict: 409, fault.Throttled: 429, fault.Unavailable: 503, fault.Timeout: 503,
	}
	w := newAPI(t, 0)
	for _, kind := range fault.Kinds() {
		status, ok := want[kind]
		if !ok {
			t.Errorf("nobody has said what status %d has", kind)
		}
		w.access.fail = fault.Wrap(kind, "A sentence", errors.New("the cause"))
		got := w.serveOnce(context.Background(), request{method: "POST", path: "/v1/auth/login", body: goodLogin})
		got.want(t, status, message("A sentence"))
		if retry := got.header.Get("Retry-After"); (retry != "") != (status == 429 || status == 503) {
			t.Errorf("%d: Retry-After %q", kind, retry)
		}
	}
	w.access.fail = errors.New("the cause")
	w.serveOnce(context.Background(), request{method: "POST", path: "/v1/auth/login", body: goodLogin}).want(t, 500, message("Internal error"))
}

func TestFail_retryAfter(t *testing.T) {
	w := newWorld(t)
	for after, want := range map[time.Duration]string{
		0: "5", -time.Second: "5", 1: "1", time.Second: "1", time.Second + 1: "2", 90 * time.Second: "90",
	} {
		w.access.with(func() { w.access.fail = fault.Throttle("Too many failed logins; try again later", after) })
		got := w.do(request{method: "POST", path: "/v1/auth/login", body: goodLogin})
		got.want(t, 429, message("Too many failed logins; try again later"))
		if header := got.header.Get("Retry-After"); header != want {
			t.Errorf("%v: Retry-After %q, want %q", after, header, want)
		}
	}
}

// What needs a write that cannot be made gets 503, never a false success.
func TestStorageFailing(t *testing.T) {
	w := newWorld(t)
	w.access.with(func() {
		w.access.fail = fault.Wrap(fault.Unavailable, "Storage is failing; try again", errors.New("disk full"))
	})
	want := message("Storage is failing; try again")
	w.do(request{method: "POST", path: "/v1/auth/login", body: goodLogin}).want(t, 503, want)
	w.do(request{method: "POST", path: "/v1/auth/revoke", bearer: accessToken}).want(t, 503, want)
	w.do(request{method: "POST", path: "/v1/auth/revoke-all", bearer: accessToken}).want(t, 503, want)
	w.do(request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken}).want(t, 200, stationJSON)
	w.do(request{method: "POST", path: "/v1/stations/" + stationToken + "/locks/1/unlock", bearer: accessToken}).
		want(t, 200, `{"success":true}`)
	if !strings.Contains(w.logs.String(), "disk full") {
		t.Error("the log does not say why")
	}
}

func TestAuthenticate_failsOtherwise(t *testing.T) {
	w := newWorld(t)
	w.access.with(func() { w.access.auth = errors.New("broken") })
	w.do(request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken}).want(t, 500, message("Internal error"))
}

func TestAuthorization(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		values []string
		status int
	}{
		"plain":            {[]string{"Bearer " + accessToken}, 200},
		"lower case":       {[]string{"bearer " + accessToken}, 200},
		"upper case":       {[]string{"BEARER " + accessToken}, 200},
		"spaces":           {[]string{"Bearer   " + accessToken + "  "}, 200},
		"none":             {nil, 401},
		"empty":            {[]string{""}, 401},
		"no scheme":        {[]string{accessToken}, 401},
		"no token":         {[]string{"Bearer"}, 401},
		"blank token":      {[]string{"Bearer "}, 401},
		"other scheme":     {[]string{"Basic " + accessToken}, 401},
		"tab":              {[]string{"Bearer\t" + accessToken}, 401},
		"quoted":           {[]string{`Bearer "` + accessToken + `"`}, 401},
		"listed":           {[]string{"Bearer " + accessToken + ", Bearer " + accessToken}, 401},
		"trailing garbage": {[]string{"Bearer " + accessToken + " x"}, 401},
		"twice":            {[]string{"Bearer " + accessToken, "Bearer " + accessToken}, 401},
		"good and bad":     {[]string{"Bearer x", "Bearer " + accessToken}, 401},
		"unknown":          {[]string{"Bearer " + newAccess}, 401},
		"of an ended one":  {[]string{"Bearer " + endingAccess}, 401},
		"refresh token":    {[]string{"Bearer " + refreshToken}, 401},
		"long":             {[]string{"Bearer " + strings.Repeat("a", 8000)}, 401},
		"not ASCII":        {[]string{"Bearer \xff\xfe"}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []request{
				{method: "GET", path: "/v1/stations/" + stationToken},
				{method: "POST", path: "/v1/stations/" + stationToken + "/locks/1/unlock"},
				{method: "GET", path: "/local/v1/stations"},
			} {
				req := w.build(r)
				req.Header["Authorization"] = c.values
				resp, err := w.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != c.status {
					t.Errorf("%s: %d, want %d", r.path, resp.StatusCode, c.status)
				}
				if c.status == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s: %v", r.path, resp.Header)
				}
			}
		})
	}
}

// A token counts in the header alone.
func TestAuthorization_nowhereElse(t *testing.T) {
	w := newWorld(t)
	for _, r := range []request{
		{path: "?access_token=" + accessToken},
		{path: "?token=" + accessToken},
		{header: map[string]string{"Cookie": "accessToken=" + accessToken}},
		{header: map[string]string{"X-Authorization": "Bearer " + accessToken}},
		{header: map[string]string{"Proxy-Authorization": "Bearer " + accessToken}},
	} {
		r.method, r.path = "GET", "/v1/stations/"+stationToken+r.path
		w.do(r).want(t, 401, message("Token is invalid"))
	}
}

// An access token is refused from the very next request after its session has ended.
func TestAuthorization_ended(t *testing.T) {
	w := newWorld(t)
	read := request{method: "GET", path: "/v1/stations/" + stationToken, bearer: accessToken}
	w.do(read).want(t, 200, stationJSON)
	w.access.with(func() { delete(w.access.tokens, accessToken) })
	w.do(read).want(t, 401, message("Token is invalid"))
}
