package adminapi_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

func TestHandler_status(t *testing.T) {
	h := open(t)
	h.want(h.do("GET", "/admin/v1/status", ""), 200, `{"version":"1.0","gatewayId":"gateway","name":"gate","boot":"boot",`+
		`"started":"2026-01-02T03:04:05.000Z","ready":true,"conditions":[{"code":"plain-http","severity":"warning","summary":"s","advice":"a","since":"2026-01-02T03:04:05.000Z"}],`+
		`"clock":{"now":"2026-01-02T03:04:05.000Z","trusted":true},"listeners":[{"name":"http","address":"127.0.0.1:8080","tls":false}],"addresses":["192.168.1.20"],`+
		`"stations":{"enrolled":2,"online":1},"accounts":3,"sessions":4,"journal":{"records":5,"bytes":600,"first":1,"last":5},"data":"/data",`+
		`"certificate":{"names":["gate"],"notAfter":"2026-01-02T03:04:05.000Z","fingerprint":"EF:01","authorityFingerprint":"AB:CD","own":true},`+
		`"memory":{"used":7,"limit":8},"timeZone":"Europe/Berlin","cloud":{"url":"tls://mqtt.example.test","connected":false,"since":"2026-01-02T03:04:05.000Z",`+
		`"error":"e","advice":"a","nextTry":"2026-01-02T03:04:05.000Z","acknowledgement":"application","delivered":3,"waiting":2,"lastDelivery":null,"keys":["k"]},"update":{"image":false,"advice":"Run apt."}}`)
}

// blank hides what differs from run to run.
func blank(a answer) answer {
	for pattern, with := range map[string]string{
		`[0-9a-f]{8}-[0-9a-f]{4}-[48][0-9a-f-]{21}`: "UUID", `\d{4}-\d\d-\d\dT[\d:.]+Z`: "TIME",
		`[A-Z2-7]{26}`: "SECRET", `[a-z2-7]{26}`: "TOKEN", `"password":"[a-km-np-z2-9]{20}"`: `"password":"GENERATED"`,
	} {
		a.body = regexp.MustCompile(pattern).ReplaceAllString(a.body, with)
	}
	return a
}

func TestHandler_accounts(t *testing.T) {
	h := open(t)
	h.want(h.do("GET", "/admin/v1/accounts", ""), 200, `{"accounts":[]}`)
	h.want(blank(h.do("POST", "/admin/v1/accounts", `{"email":"Porter@example.test"}`)), 201,
		`{"accountId":"UUID","email":"porter@example.test","password":"GENERATED"}`)
	h.want(blank(h.do("POST", "/admin/v1/accounts", `{"email":"chief@example.test","password":"correct horse battery","admin":true}`)), 201,
		`{"accountId":"UUID","email":"chief@example.test"}`)
	h.want(blank(h.do("GET", "/admin/v1/accounts", "")), 200,
		`{"accounts":[{"accountId":"UUID","email":"chief@example.test","admin":true,"created":"TIME"},`+
			`{"accountId":"UUID","email":"porter@example.test","admin":false,"created":"TIME"}]}`)
	h.want(h.do("POST", "/admin/v1/accounts", `{"email":"porter@example.test"}`), 409, `{"message":"There is an account with this e-mail address already"}`)
	h.want(h.do("POST", "/admin/v1/accounts", `{"email":"nobody"}`), 400, `{"message":"\"nobody\" is not an e-mail address: write it like porter@example.test"}`)
	h.want(h.do("POST", "/admin/v1/accounts", `{"email":"x@example.test","password":"short"}`), 400, `{"message":"The password is too short: 8 characters at least"}`)
	h.want(blank(h.do("PATCH", "/admin/v1/accounts/porter@example.test", `{"admin":true}`)), 200,
		`{"accountId":"UUID","email":"porter@example.test","admin":true,"created":"TIME"}`)
	h.want(h.do("PATCH", "/admin/v1/accounts/porter@example.test", `{}`), 400, `{"message":"Say what to change: \"admin\""}`)
	h.want(h.do("DELETE", "/admin/v1/accounts/porter%40example.test", ""), 204, "")
	h.want(h.do("DELETE", "/admin/v1/accounts/porter@example.test", ""), 404, `{"message":"There is no account porter@example.test"}`)
	h.want(h.do("PATCH", "/admin/v1/accounts/porter@example.test", `{"admin":true}`), 404, `{"message":"There is no account porter@example.test"}`)
}

func TestHandler_password(t *testing.T) {
	h := open(t)
	h.addAccount(porter, false)
	const path = "/admin/v1/accounts/" + porter + "/password"
	h.want(blank(h.do("PUT", path, `{"password":"battery staple"}`)), 200, `{"accountId":"UUID","email":"porter@example.test","ended":0}`)
	if ok, _ := h.access.PasswordMatches(t.Context(), porter, "battery staple"); !ok {
		t.Error("the password was not set")
	}
	got := h.do("PUT", path, `{}`)
	h.want(blank(got), 200, `{"accountId":"UUID","email":"porter@example.test","password":"GENERATED","ended":0}`)
	var issued adminapi.IssuedAccount
	h.must(json.Unmarshal([]byte(got.body), &issued))
	if ok, _ := h.access.PasswordMatches(t.Context(), porter, site.Secret(issued.Password)); !ok {
		t.Error("the generated password was not set")
	}
	h.want(h.do("PUT", "/admin/v1/accounts/who@example.test/password", `{}`), 404, `{"message":"There is no account who@example.test"}`)
}

// A new password ends the sessions of the account where that is asked for, but for the
// caller's. Who changes the own one states the present one, and may not guess it.
func TestHandler_password_sessions(t *testing.T) {
	h := open(t)
	h.addAccount(chief, true)
	h.addAccount(porter, false)
	mine, other, theirs := h.token(chief), h.token(chief), h.token(porter)
	put := func(email, body string) answer {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/admin/v1/accounts/"+email+"/password", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+mine)
		return h.send(adminapi.Web, r)
	}
	alive := func(want ...bool) {
		t.Helper()
		for i, token := range []string{mine, other, theirs} {
			if _, err := h.access.Authenticate(site.Secret(token)); (err == nil) != want[i] {
				t.Errorf("session %d: %v", i, err)
			}
		}
	}
	h.want(blank(put(porter, `{"password":"battery staple"}`)), 200, `{"accountId":"UUID","email":"porter@example.test","ended":0}`)
	alive(true, true, true)
	h.want(blank(put(porter, `{"password":"battery staple 2","endSessions":true}`)), 200, `{"accountId":"UUID","email":"porter@example.test","ended":1}`)
	alive(true, true, false)
	h.want(put(chief, `{"password":"another battery"}`), 400, `{"message":"The present password of your account is missing: send it as \"present\""}`)
	h.want(put(chief, `{"present":"battery staple","password":"another battery","endSessions":true}`), 403, `{"message":"This is not the password of your account"}`)
	alive(true, true, false)
	h.want(blank(put(chief, `{"present":"correct horse battery","password":"another battery","endSessions":true}`)), 200, `{"accountId":"UUID","email":"chief@example.test","ended":1}`)
	alive(true, false, false)
	var last answer
	for range 20 {
		last = put(chief, `{"present":"a guess"}`)
	}
	h.want(last, 429, `{"message":"Too many failed logins; try again later"}`)
	alive(true, false, false)
}

// While the storage takes nothing, a new password is refused, and the sessions that it was to
// end have ended; a password that is no good ends none.
func TestHandler_password_unstored(t *testing.T) {
	h := open(t)
	h.addAccount(porter, false)
	token := site.Secret(h.token(porter))
	const path = "/admin/v1/accounts/" + porter + "/password"
	if got := h.do("PUT", path, `{"password":"short","endSessions":true}`); got.status != http.StatusBadRequest {
		t.Errorf("status %d", got.status)
	}
	if _, err := h.access.Authenticate(token); err != nil {
		t.Error(err)
	}
	h.store.failing = fault.New(fault.Unavailable, "The storage does not answer")
	if got := h.do("PUT", path, `{"password":"battery staple","endSessions":true}`); got.status != http.StatusServiceUnavailable {
		t.Errorf("status %d", got.status)
	}
	if _, err := h.access.Authenticate(token); err == nil {
		t.Error("the session lives")
	}
}

func TestHandler_sessions(t *testing.T) {
	h := open(t)
	h.addAccount(porter, false)
	h.token(porter)
	h.want(blank(h.do("GET", "/admin/v1/accounts/"+porter+"/sessions", "")), 200,
		`{"sessions":[{"sessionId":"UUID","created":"TIME","expires":"TIME","remote":"192.0.2.1","client":"curl","lastUsed":"TIME","current":false}]}`)
	path := "/admin/v1/accounts/" + porter + "/sessions/"
	h.want(h.do("DELETE", path+"unknown", ""), 404, `{"message":"There is no such session"}`)
	live, err := h.access.Sessions(porter)
	h.must(err)
	h.want(h.do("DELETE", path+string(live[0].ID), ""), 204, "")
	h.token(porter)
	h.want(h.do("POST", "/admin/v1/accounts/"+porter+"/revoke", ""), 200, `{"ended":1}`)
	h.want(h.do("GET", "/admin/v1/accounts/"+porter+"/sessions", ""), 200, `{"sessions":[]}`)
	h.want(h.do("POST", "/admin/v1/accounts/who@example.test/revoke", ""), 404, `{"message":"There is no account who@example.test"}`)

	h.addAccount(chief, true)
	h.token(chief)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/v1/accounts/"+chief+"/sessions", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+h.token(chief))
	got := h.send(adminapi.Web, r)
	if strings.Count(got.body, `"current":false`) != 1 || strings.Count(got.body, `"current":true`) != 1 {
		t.Errorf("which session is the caller's: %s", got.body)
	}
}

func TestHandler_stations(t *testing.T) {
	h := open(t)
	h.want(h.do("GET", "/admin/v1/stations", ""), 200, `{"stations":[]}`)
	h.want(blank(h.do("POST", "/admin/v1/stations", `{"stationId":1042,"locks":2,"name":"North"}`)), 201,
		`{"stationId":1042,"stationToken":"TOKEN","mqtt":{"clientId":"station-1042","username":"station-1042","password":"SECRET"}}`)
	h.want(h.do("POST", "/admin/v1/stations", `{"stationId":7,"locks":1,"secret":"GIVENSECRET12","token":"given-token"}`), 201,
		`{"stationId":7,"stationToken":"given-token","mqtt":{"clientId":"station-7","username":"station-7","password":"GIVENSECRET12"}}`)
	h.report(7, []byte(`{"firmware":"1.4.2","batteryVoltage":3.5}`))
	seven := `{"stationId":7,"batteryVoltage":3.5,"lastConnection":"TIME","status":"offline","locks":[{"lockId":"lock-1","status":"unknown","lastUpdated":null}],"name":"","firmware":"1.4.2","enrolled":"TIME","homeassistant":"state"}`
	north := `{"stationId":1042,"batteryVoltage":null,"lastConnection":null,"status":"offline","locks":[` +
		`{"lockId":"lock-1","status":"unknown","lastUpdated":null},{"lockId":"lock-2","status":"unknown","lastUpdated":null}],"name":"North","enrolled":"TIME","homeassistant":"state"}`
	h.want(blank(h.do("GET", "/admin/v1/stations", "")), 200, `{"stations":[`+seven+`,`+north+`]}`)
	h.want(blank(h.do("GET", "/admin/v1/stations/7", "")), 200, strings.Replace(seven, `"homeassistant"`, `"subscribed":true,"homeassistant"`, 1))
	h.want(h.do("GET", "/admin/v1/stations/8", ""), 404, `{"message":"Station 8 is not enrolled"}`)
	h.want(h.do("GET", "/admin/v1/stations/x", ""), 400, `{"message":"\"x\" is not a station id: give a number from 1 to 2147483647"}`)
	h.want(h.do("POST", "/admin/v1/stations", `{"stationId":7,"locks":1}`), 409, `{"message":"Station 7 is enrolled already"}`)
	h.want(blank(h.do("PATCH", "/admin/v1/stations/1042", `{"name":"South"}`)), 200, strings.Replace(north, "North", "South", 1))
	h.want(h.do("PATCH", "/admin/v1/stations/1042", `{"locks":0}`), 400, `{"message":"A station has 1 to 64 locks"}`)
	h.want(h.do("PATCH", "/admin/v1/stations/1042", `{}`), 400, `{"message":"Say what to change: \"name\", \"locks\", \"homeassistant\""}`)
	h.want(h.do("PATCH", "/admin/v1/stations/8", `{"locks":2}`), 404, `{"message":"Station 8 is not enrolled"}`)
	if h.do("PATCH", "/admin/v1/stations/1042", `{"locks":3}`); !h.stations.HasLock(1042, 3) {
		t.Error("the locks were not changed")
	}
}

func TestHandler_rotateAndRemove(t *testing.T) {
	h := open(t)
	h.addStation(1042)
	got := h.do("POST", "/admin/v1/stations/1042/rotate", "")
	h.want(blank(got), 200, `{"stationId":1042,"mqtt":{"clientId":"station-1042","username":"station-1042","password":"SECRET"}}`)
	var issued adminapi.IssuedStation
	h.must(json.Unmarshal([]byte(got.body), &issued))
	if !h.stations.SecretMatches(1042, site.Secret(issued.MQTT.Password)) {
		t.Error("the new secret does not hold")
	}
	h.want(h.do("DELETE", "/admin/v1/stations/1042", ""), 204, "")
	h.want(h.do("DELETE", "/admin/v1/stations/1042", ""), 404, `{"message":"Station 1042 is not enrolled"}`)
	h.want(h.do("POST", "/admin/v1/stations/1042/rotate", ""), 404, `{"message":"Station 1042 is not enrolled"}`)
}

func TestHandler_grants(t *testing.T) {
	h := open(t)
	h.addStation(1042)
	h.addAccount(porter, false)
	const path = "/admin/v1/grants/porter@example.test/1042"
	full := `{"email":"porter@example.test","stationId":1042,"from":"2026-01-01T00:00:00.000Z","until":"2027-01-01T00:00:00.000Z","hours":"Mon-Fri 08:00-18:00"`
	terms := `{"from":"2026-01-01T01:00:00+01:00","until":"2027-01-01T00:00:00Z","hours":"mon-fri 08:00-18:00"}`
	h.want(h.do("PUT", path, terms), 200, full+`,"changed":true}`)
	h.want(h.do("PUT", path, terms), 200, full+`,"changed":false}`)
	h.want(h.do("GET", "/admin/v1/grants", ""), 200, `{"grants":[`+full+`}]}`)
	h.want(h.do("PUT", path, `{}`), 200, `{"email":"porter@example.test","stationId":1042,"from":null,"until":null,"hours":"","changed":true}`)
	h.want(h.do("PUT", path, `{"hours":"always"}`), 400, `{"message":"\"always\" are not hours: write them like \"Mon-Fri 08:00-18:00\""}`)
	h.want(h.do("PUT", path, `{"from":"2027-01-01T00:00:00Z","until":"2026-01-01T00:00:00Z"}`), 400, `{"message":"The grant would end before it begins"}`)
	h.want(h.do("PUT", "/admin/v1/grants/porter@example.test/7", `{}`), 404, `{"message":"Station 7 is not enrolled"}`)
	h.want(h.do("PUT", "/admin/v1/grants/who@example.test/1042", `{}`), 404, `{"message":"There is no account who@example.test"}`)
	h.want(h.do("DELETE", path, ""), 204, "")
	h.want(h.do("DELETE", path, ""), 404, `{"message":"There is no such grant"}`)
}

func TestHandler_unlock(t *testing.T) {
	h := open(t)
	h.addStation(1042)
	h.addStation(7)
	const answered = `{"commandId":"0190c8a0-0000-7000-8000-000000000000","outcome":`
	h.want(h.do("POST", "/admin/v1/stations/1042/locks/lock-2/unlock", ""), 200, answered+`"done","success":true}`)
	h.want(h.do("POST", "/admin/v1/stations/7/locks/1/unlock", ""), 200, answered+`"offline","success":false}`)
	h.want(h.do("POST", "/admin/v1/stations/7/locks/lock-99/unlock", ""), 400, `{"message":"\"lock-99\" is not a lock id: give lock-1 to lock-64"}`)
	h.want(h.do("POST", "/admin/v1/stations/7/locks/lock-3/unlock", ""), 404, `{"message":"Station 7 has no lock-3: it has 2 locks"}`)
	h.want(h.do("POST", "/admin/v1/stations/8/locks/lock-1/unlock", ""), 404, `{"message":"Station 8 is not enrolled"}`)
	h.want(h.do("POST", "/admin/v1/stations/0/locks/1/unlock", ""), 400, `{"message":"\"0\" is not a station id: give a number from 1 to 2147483647"}`)
	if seen := h.unlocker.seen; len(seen) != 4 || seen[2].Station != 7 || seen[2].Lock != 0 || seen[3].Station != 0 {
		t.Fatalf("the unlocker, which has denials on record, was asked for %+v", seen)
	}
	if r := h.unlocker.seen[0]; r.Actor.Origin != site.Admin || !strings.HasPrefix(r.Actor.Name, "uid 0") || r.Station != 1042 || r.Lock != 2 || !r.WaitResult {
		t.Errorf("the request is %+v", r)
	}
	h.want(h.do("POST", "/admin/v1/stations/1042/locks/lock-2/unlock?wait=acknowledged", ""), 200, answered+`"done","success":true}`)
	if h.unlocker.seen[4].WaitResult {
		t.Error("waited for the result")
	}
	h.want(h.do("POST", "/admin/v1/stations/1042/locks/lock-2/unlock?wait=ever", ""), 400, `{"message":"The query \"wait\" can only be \"acknowledged\""}`)
	h.unlocker.err = fault.New(fault.NotFound, "Station not found")
	h.want(h.do("POST", "/admin/v1/stations/7/locks/1/unlock", ""), 404, `{"message":"Station not found"}`)
}

func TestHandler_malformed(t *testing.T) {
	h := open(t)
	post := func(kind, body string) answer {
		r := httptest.NewRequestWithContext(adminapi.PeerContext(t.Context(), 0, 0, 1, 1), "POST", "/admin/v1/accounts", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		return h.send(adminapi.Socket, r)
	}
	const kind = "application/json; charset=utf-8"
	for name, c := range map[string]struct {
		kind, body string
		status     int
		message    string
	}{
		"no body":         {kind, "", 400, `The body is missing: send a JSON object`},
		"other case":      {kind, `{"EMAIL":"x@y.test"}`, 400, `Unknown field \"EMAIL\"`},
		"unknown field":   {kind, `{"emial":"x@y.test"}`, 400, `Unknown field \"emial\"`},
		"repeated":        {kind, `{"email":"x@y.test","email":"x@y.test"}`, 400, `The field \"email\" is repeated`},
		"number for text": {kind, `{"email":"x@y.test","password":12345678}`, 400, `\"password\" cannot be a number`},
		"text for truth":  {kind, `{"email":"x@y.test","admin":"yes"}`, 400, `\"admin\" cannot be a string`},
		"deep":            {kind, strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000), 400, `Unknown field \"a\"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := post(c.kind, c.body)
			h.want(got, c.status, `{"message":"`+c.message+`"}`)
		})
	}
	if len(h.access.Accounts()) != 0 {
		t.Error("an account was made")
	}
}

func TestHandler_pathsAndMethods(t *testing.T) {
	h := open(t)
	for _, path := range []string{"/admin/v1", "/admin/v1/", "/admin/v1/none", "/admin/v1/stations/", "/admin/v1//stations", "/admin/v1/../v1/status", "/v1/status"} {
		h.want(h.do("GET", path, ""), 404, `{"message":"Not found"}`)
	}
	for _, c := range [][3]string{
		{"PUT", "/admin/v1/accounts", "GET, HEAD, POST"},
		{"POST", "/admin/v1/stations/watch", "GET, HEAD"},
		{"GET", "/admin/v1/apply", "POST"},
		{"GET", "/admin/v1/grants/a@b.test/7", "DELETE, PUT"},
	} {
		got := h.do(c[0], c[1], "")
		if got.status != 405 || got.header.Get("Allow") != c[2] || got.body != `{"message":"Method not allowed"}`+"\n" {
			t.Errorf("%s %s: %d, Allow %q, %s", c[0], c[1], got.status, got.header.Get("Allow"), got.body)
		}
	}
}

// A failure of ours is in the log and not in the answer.
func TestHandler_internalError(t *testing.T) {
	h := open(t)
	h.addStation(1042)
	h.unlocker.err = errors.New("the reason")
	h.want(h.do("POST", "/admin/v1/stations/1042/locks/1/unlock", ""), 500, `{"message":"Internal error"}`)
	if log := h.log.String(); !strings.Contains(log, `"error":"the reason"`) || !strings.Contains(log, `"route":"/admin/v1/stations/{station}/locks/{lock}/unlock"`) {
		t.Errorf("the log says %s", log)
	}
}

func TestHandler_storageFails(t *testing.T) {
	h := open(t)
	h.store.failing = errors.New("disk full")
	got := h.do("POST", "/admin/v1/accounts", `{"email":"x@y.test"}`)
	h.want(got, 503, `{"message":"This cannot be stored now; try again"}`)
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// What was issued is shown once: nothing that is read later holds a secret, and
// neither log nor metrics ever do.
func TestHandler_secretsStayIn(t *testing.T) {
	h := open(t)
	secrets := []string{"CANARYSECRET1", "canary-token", "canary password", "another canary", "CANARYSECRET2"}
	h.do("POST", "/admin/v1/stations", `{"stationId":1042,"locks":2,"secret":"CANARYSECRET1","token":"canary-token"}`)
	h.do("POST", "/admin/v1/stations", `{"stationId":1043,"locks":2,"secret":"CANARYSECRET2","token":"canary-token"}`)
	h.do("POST", "/admin/v1/accounts", `{"email":"porter@example.test","password":"canary password"}`)
	h.do("POST", "/admin/v1/accounts", `{"email":"porter@example.test","password":"canary password"}`)
	h.do("PUT", "/admin/v1/accounts/porter@example.test/password", `{"password":"another canary"}`)
	h.do("POST", "/admin/v1/accounts", `{"email":"x","password":"canary password","x":1}`)
	var issued adminapi.IssuedStation
	h.must(json.Unmarshal([]byte(h.do("POST", "/admin/v1/stations/1042/rotate", "").body), &issued))
	h.provisioner.err = errors.New("broken")
	h.do("POST", "/admin/v1/apply", `{"site":{"accounts":[{"email":"a@b.test","password":"canary password"}],"stations":[{"id":7,"secret":"CANARYSECRET1","token":"canary-token"}]}}`)
	h.do("POST", "/admin/v1/apply", `{"site":{"accounts":[{"email":"a","password":"canary password"}],"stations":[{"id":7,"secret":"CANARYSECRET1"}]}}`)
	h.addAccount(chief, true)
	token := h.token(chief)
	h.send(adminapi.Web, h.web("GET", "/admin/v1/accounts/"+token, "Bearer "+token+"x"))
	secrets = append(secrets, issued.MQTT.Password, token)

	var metrics strings.Builder
	h.metrics.Write(&metrics)
	places := map[string]string{"the log": h.log.String(), "the metrics": metrics.String()}
	for _, path := range []string{"/stations", "/stations/1042", "/accounts", "/grants", "/status", "/accounts/porter@example.test/sessions"} {
		places[path] = h.do("GET", "/admin/v1"+path, "").body
	}
	for place, text := range places {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %q", place, secret)
			}
		}
	}
	if strings.Contains(places["the metrics"], "porter") || !strings.Contains(places["the metrics"], `route="/admin/v1/stations",status="201"`) {
		t.Errorf("the metrics are %s", places["the metrics"])
	}
	if strings.Contains(places["the log"], "broken") != true {
		t.Error("the log holds no error of the broken apply")
	}
}
