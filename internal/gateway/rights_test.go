package gateway_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// A right is what a route asks of its caller. /v1 takes a bearer alone, /local/v1 and
// /admin/v1 a bearer or the cookie of a session.
type right int

const (
	public     right = iota // nothing: the answer is the same for everyone
	signedIn                // a session or an integration token
	sees                    // one that may see station 1042
	opens                   // one that may unlock it
	ends                    // a session, which it ends
	administer              // a session of an administrator
	endsAll                 // a session of an administrator, which ends with all others: it is refused only
	socketOnly              // the admin socket
)

// A row is what the matrix knows of a route. Its request does no harm: it names what is
// not there, or has an empty body.
type row struct {
	right  right
	status int // of those who are admitted; 0: 200
	body   string
}

// rows has a row for each route, by its method and pattern. A new route gets one here.
func rows() map[string]row {
	bad, gone, empty := http.StatusBadRequest, http.StatusNotFound, "{}"
	return map[string]row{
		"GET /healthz": {}, "GET /readyz": {}, "GET /docs": {}, "GET /metrics": {}, "GET /v1/openapi.json": {}, "GET /local/v1/openapi.json": {}, "GET /admin/v1/openapi.json": {},
		"GET /trust": {}, "GET /trust/style.css": {}, "GET /trust/test.js": {}, "GET /trust/check.svg": {},
		"GET /ca.crt": {}, "GET /ca.der": {}, "GET /gatehouse.mobileconfig": {},
		"GET /v1/webhooks": {status: http.StatusNotImplemented}, "GET /v1/webhooks/{id}": {status: http.StatusNotImplemented},
		"POST /v1/auth/login":      {public, bad, empty},
		"POST /v1/auth/refresh":    {public, bad, empty},
		"POST /v1/auth/revoke":     {right: ends},
		"POST /v1/auth/revoke-all": {right: ends},

		"GET /v1/stations/{station_token}":                         {right: sees},
		"POST /v1/stations/{station_token}/locks/{lock_id}/unlock": {right: opens},

		"GET /local/v1/setup":                           {},
		"POST /local/v1/setup":                          {public, gone, empty}, // there are accounts
		"POST /local/v1/session":                        {public, bad, empty},
		"GET /local/v1/session":                         {right: signedIn},
		"DELETE /local/v1/session":                      {right: ends, status: http.StatusNoContent},
		"GET /local/v1/stations":                        {right: signedIn},
		"GET /local/v1/watch":                           {right: signedIn},
		"GET /local/v1/stations/{station_token}/events": {right: sees},
		"POST /local/v1/stations/{station_token}/locks/{lock_id}/unlock": {right: opens},
		"GET /local/v1/commands/{command_id}":                            {right: signedIn, status: gone},

		"GET /admin/v1/status":                                  {right: administer},
		"GET /admin/v1/accounts":                                {right: administer},
		"POST /admin/v1/accounts":                               {administer, bad, empty},
		"PATCH /admin/v1/accounts/{email}":                      {administer, gone, empty},
		"DELETE /admin/v1/accounts/{email}":                     {right: administer, status: gone},
		"PUT /admin/v1/accounts/{email}/password":               {administer, gone, empty},
		"GET /admin/v1/accounts/{email}/sessions":               {right: administer, status: gone},
		"DELETE /admin/v1/accounts/{email}/sessions/{session}":  {right: administer, status: gone},
		"POST /admin/v1/accounts/{email}/revoke":                {right: administer, status: gone},
		"POST /admin/v1/sessions/end-all":                       {right: endsAll},
		"GET /admin/v1/stations":                                {right: administer},
		"POST /admin/v1/stations":                               {administer, bad, empty},
		"GET /admin/v1/stations/watch":                          {right: administer},
		"GET /admin/v1/stations/{station}":                      {right: administer, status: gone},
		"PATCH /admin/v1/stations/{station}":                    {administer, gone, empty},
		"DELETE /admin/v1/stations/{station}":                   {right: administer, status: gone},
		"GET /admin/v1/stations/{station}/battery":              {right: administer, status: gone},
		"POST /admin/v1/stations/{station}/rotate":              {right: administer, status: gone},
		"POST /admin/v1/stations/{station}/locks/{lock}/unlock": {right: administer, status: gone},
		"GET /admin/v1/grants":                                  {right: administer},
		"PUT /admin/v1/grants/{who}/{what}":                     {administer, gone, empty},
		"DELETE /admin/v1/grants/{who}/{what}":                  {right: administer, status: gone},
		"GET /admin/v1/groups":                                  {right: administer},
		"PATCH /admin/v1/groups/{group}":                        {administer, bad, empty},
		"DELETE /admin/v1/groups/{group}":                       {right: administer, status: gone},
		"GET /admin/v1/holidays":                                {right: administer},
		"POST /admin/v1/holidays":                               {administer, bad, empty},
		"DELETE /admin/v1/holidays/{holiday}":                   {right: administer, status: gone},
		"GET /admin/v1/tokens":                                  {right: administer},
		"POST /admin/v1/tokens":                                 {administer, bad, empty},
		"DELETE /admin/v1/tokens/{name}":                        {right: administer, status: gone},
		"POST /admin/v1/qr":                                     {administer, bad, empty},
		"POST /admin/v1/apply":                                  {administer, bad, `{"x":1}`},
		"GET /admin/v1/journal":                                 {right: administer},
		"GET /admin/v1/journal/verify":                          {right: administer},
		"POST /admin/v1/journal/witnesses":                      {administer, bad, `{"x":1}`},
		"GET /admin/v1/database":                                {right: administer},
		"GET /admin/v1/update":                                  {right: administer},
		"POST /admin/v1/update":                                 {administer, bad, empty},
		"PUT /admin/v1/update/file":                             {right: administer, status: http.StatusConflict}, // this is no image
		"POST /admin/v1/update/withdraw":                        {right: administer, status: http.StatusConflict}, // likewise
		"POST /admin/v1/update/rollback":                        {right: administer, status: http.StatusConflict}, // likewise
		"GET /admin/v1/clock":                                   {right: administer},
		"POST /admin/v1/clock/accept":                           {right: administer},
		"POST /admin/v1/clock/reset":                            {right: administer, status: http.StatusConflict},
		"GET /admin/v1/backup":                                  {right: socketOnly},
		"POST /admin/v1/backup":                                 {administer, bad, empty},
		"POST /admin/v1/restart":                                {right: administer, status: http.StatusConflict}, // nothing would start it again
	}
}

// principal is who sends requests.
type principal struct {
	name           string
	bearer, cookie string
	live           bool // whether that is good for anything
	session, admin bool
	sees, opens    bool                           // station 1042
	renew          func() (bearer, cookie string) // logs in again; nil where that cannot be
}

// want returns the status of the answer to a request with the principal's cookie or its
// bearer.
func (p principal) want(route string, r row, cookie bool) int {
	noCookie := cookie && (!p.session || strings.Contains(route, " /v1/"))
	switch {
	case r.right == public:
	case !p.live, noCookie, r.right == ends && !p.session:
		return http.StatusUnauthorized
	case (r.right == administer || r.right == endsAll) && !p.admin:
		return http.StatusForbidden
	case (r.right == sees || r.right == opens) && !p.sees:
		return http.StatusNotFound
	case r.right == opens && !p.opens:
		return http.StatusForbidden
	}
	return max(r.status, http.StatusOK)
}

// Every route answers every principal as its row says: nobody, users with and without a
// grant, integration tokens of each scope and administrators, each also removed or
// revoked, by bearer and by cookie.
func TestGateway_rights(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "") // nothing restarts the gateway
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.TLSListen = []string{"127.0.0.1:0"}
	g := gatewaytest.Start(t, cfg)
	table, lasting, ending := rows(), []string{}, []string{}
	routed := map[string]bool{}
	for _, rt := range g.Running.Routes() {
		if rt.Pattern == "/{$}" || strings.HasPrefix(rt.Pattern, "/console/") {
			continue // a file of the console: everyone may read it
		}
		route := cmp.Or(rt.Method, http.MethodGet) + " " + rt.Pattern
		if _, known := table[route]; !known && !routed[route] {
			t.Errorf("%s has no row in the matrix of rights: add one to rows()", route)
		}
		routed[route] = true
	}
	for route, r := range table {
		switch {
		case !routed[route]:
			t.Errorf("there is no route for the row %s", route)
		case r.right == ends:
			ending = append(ending, route)
		case r.right != socketOnly:
			lasting = append(lasting, route)
		}
	}
	status, err := g.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := caller{t, g, "gatehouse-" + string(status.GatewayID), strings.NewReplacer("{station_token}", g.Enrol(1042).StationToken, "{lock_id}", "1", "{lock}", "1",
		"{email}", "absent@example.test", "{station}", "4040", "{who}", "absent@example.test", "{what}", "4040")}
	for _, p := range c.principals() {
		for _, cookie := range []bool{false, true} {
			for _, route := range lasting {
				if table[route].right == endsAll && p.live && p.admin {
					continue
				}
				c.check(p, route, table[route], cookie)
			}
		}
		for _, cookie := range []bool{false, true} {
			for _, route := range ending {
				if p.renew != nil {
					p.bearer, p.cookie = p.renew()
				}
				c.check(p, route, table[route], cookie)
			}
		}
	}
}

// caller sends the requests of the matrix.
type caller struct {
	t      *testing.T
	g      *gatewaytest.Gateway
	cookie string // its name
	fill   *strings.Replacer
}

// check sends a request of a principal.
func (c caller) check(p principal, route string, r row, cookie bool) {
	c.t.Helper()
	method, pattern, _ := strings.Cut(route, " ")
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel() // which ends a stream
	req, err := http.NewRequestWithContext(ctx, method, c.g.HTTP+c.fill.Replace(pattern), strings.NewReader(r.body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	how := "bearer"
	if cookie {
		how = "cookie"
		req.AddCookie(&http.Cookie{Name: c.cookie, Value: p.cookie})
	} else if p.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+p.bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if want := p.want(route, r, cookie); resp.StatusCode != want {
		c.t.Errorf("%s of %s by %s: %d, want %d", route, p.name, how, resp.StatusCode, want)
	}
}

// must ends the test where the administrator could not do something.
func (c caller) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// principals returns everyone of the matrix.
func (c caller) principals() (all []principal) {
	ctx, admin := c.t.Context(), c.g.Admin
	nobody := principal{name: "nobody"}
	garbage := principal{name: "a text that is no token", bearer: "gh_aaaaaaaaaaaaaaaaaaaaaaaaaa", cookie: "6f1c2b3a-1111-4222-8333-444455556666"}
	user := c.account("user", false)
	granted := c.account("granted", false)
	_, err := admin.Grant(ctx, granted.email(), "1042", adminapi.GrantTerms{})
	c.must(err)
	granted.sees, granted.opens = true, true
	ungranted := c.account("ungranted", false)
	_, err = admin.Grant(ctx, ungranted.email(), "1042", adminapi.GrantTerms{})
	c.must(err)
	c.must(admin.Ungrant(ctx, ungranted.email(), "1042"))
	grouped, expelled := c.account("grouped", false), c.account("expelled", false)
	_, err = admin.ChangeGroup(ctx, "people", adminapi.GroupPatch{Add: adminapi.Members{Accounts: []site.Email{site.Email(grouped.email()), site.Email(expelled.email())}}})
	c.must(err)
	_, err = admin.Grant(ctx, "people", "1042", adminapi.GrantTerms{})
	c.must(err)
	grouped.sees, grouped.opens = true, true
	_, err = admin.ChangeGroup(ctx, "people", adminapi.GroupPatch{Remove: adminapi.Members{Accounts: []site.Email{site.Email(expelled.email())}}})
	c.must(err)
	demoted := c.account("demoted", true)
	_, err = admin.SetAdmin(ctx, demoted.email(), false)
	c.must(err)
	demoted.admin = false
	all = []principal{nobody, garbage, user, granted, ungranted, grouped, expelled, c.account("administrator", true), demoted}
	for name, isAdmin := range map[string]bool{"user": false, "administrator": true} {
		revoked, removed := c.account(name+"-revoked", isAdmin), c.account(name+"-removed", isAdmin)
		_, err := admin.Revoke(ctx, revoked.email())
		c.must(err)
		c.must(admin.RemoveAccount(ctx, removed.email()))
		all = append(all, revoked.dead(), removed.dead())
	}
	return append(all, c.tokens()...)
}

// tokens returns an integration token of each scope, and each again after its removal.
func (c caller) tokens() (all []principal) {
	_, err := c.g.Admin.AddStation(c.t.Context(), adminapi.NewStation{StationID: 7, Locks: 1})
	c.must(err)
	for _, p := range []principal{
		{name: "read", sees: true},
		{name: "unlock:1042", sees: true, opens: true},
		{name: "unlock:7"},
		{name: "unlock:*", sees: true, opens: true},
	} {
		scope, err := site.ParseScope([]string{p.name})
		c.must(err)
		for _, name := range []string{"token " + p.name, "removed token " + p.name} {
			issued, err := c.g.Admin.AddToken(c.t.Context(), adminapi.NewToken{Name: name, Scopes: scope})
			c.must(err)
			p.name, p.live, p.bearer, p.cookie = name, true, issued.Text, issued.Text
			if strings.HasPrefix(name, "removed") {
				c.must(c.g.Admin.RemoveToken(c.t.Context(), name))
				p = p.dead()
			}
			all = append(all, p)
		}
	}
	return all
}

// account adds an account and logs in.
func (c caller) account(name string, admin bool) principal {
	p := principal{name: name, live: true, session: true, admin: admin}
	_, err := c.g.Admin.AddAccount(c.t.Context(), adminapi.NewAccount{Email: p.email(), Password: gatewaytest.Password, Admin: admin})
	c.must(err)
	p.renew = func() (bearer, cookie string) {
		login := []byte(object("email", p.email(), "password", gatewaytest.Password))
		var tokens struct{ AccessToken string }
		c.must(json.Unmarshal(c.g.Do(http.MethodPost, "/v1/auth/login", "", login).Body, &tokens))
		signedIn := http.Response{Header: c.g.Do(http.MethodPost, "/local/v1/session", "", login).Header}
		for _, set := range signedIn.Cookies() {
			if set.Name == c.cookie {
				cookie = set.Value
			}
		}
		return tokens.AccessToken, cookie
	}
	p.bearer, p.cookie = p.renew()
	return p
}

// email returns the address of an account.
func (p principal) email() string { return p.name + "@example.test" }

// dead returns the principal as it is after its end.
func (p principal) dead() principal {
	p.live, p.renew = false, nil
	return p
}
