package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/setup/sitefile"
	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
)

const adminEmail = "admin@example.test"

// No password, token, secret or key comes out of the gateway where it does not
// belong, whatever is done right and wrong, at the most talkative level of the log.
func TestGateway_canaries(t *testing.T) {
	need.Program(t, "mosquitto")
	for format, handler := range map[string]func(io.Writer, *slog.HandlerOptions) slog.Handler{
		"text": func(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewTextHandler(w, o) },
		"json": func(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewJSONHandler(w, o) },
	} {
		t.Run(format, func(t *testing.T) {
			h := runCanary(t, handler)
			h.accounts()
			h.stations()
			h.sessions()
			h.doors()
			h.hardware()
			h.commands()
			h.strangers()
			h.telltales()
			h.stop()
			h.hear("the log", h.log.text.String())
			h.hear("what went to the cloud", h.cloud.heard())
			h.files("after the end")
			for _, leak := range h.leaks() {
				t.Error(leak)
			}
			if len(h.secrets) < 25 || len(h.outputs) < 200 || h.log.text.Len() < 10_000 {
				t.Errorf("only %d secrets, %d outputs and %d bytes of log", len(h.secrets), len(h.outputs), h.log.text.Len())
			}
		})
	}
}

// accounts makes accounts by both doors of the administration, well and badly.
func (h *canaryHouse) accounts() {
	ctx, t := h.t.Context(), h.t
	password := h.keep("password of the porter", `pass "word" <of> the pörter & 100% canary-of-the-porter`)
	if _, err := h.g.Admin.AddAccount(ctx, adminapi.NewAccount{Email: gatewaytest.Email, Password: password}); err != nil {
		t.Fatal(err)
	}
	made, err := h.g.Admin.AddAccount(ctx, adminapi.NewAccount{Email: adminEmail, Admin: true})
	if err != nil {
		t.Fatal(err)
	}
	h.keep("generated password", made.Password)
	for _, bad := range []adminapi.NewAccount{
		{Email: gatewaytest.Email, Password: h.keep("password of a second account", "second-account-password")},
		{Email: h.keep("password in the wrong field", "password-for-an-address"), Password: "x"},
		{Email: "long@example.test", Password: h.keep("endless password", strings.Repeat("endless-password", 200))},
	} {
		_, err := h.g.Admin.AddAccount(ctx, bad)
		h.hear("the refusal of an account", fmt.Sprint(err), "password in the wrong field") // an administrator reads his own words
	}
}

// stations enrols stations, well and badly, and applies a site.
func (h *canaryHouse) stations() {
	ctx, t := h.t.Context(), h.t
	given := adminapi.NewStation{
		StationID: 1043, Locks: 1,
		Secret: h.keep("secret of 1043", "SECRET-1043-<&>-\"quoted\""), Token: h.keep("token of 1043", "token-of-station-1043"),
	}
	for _, s := range []adminapi.NewStation{{StationID: 1042, Locks: 2}, given} {
		issued, err := h.g.Admin.AddStation(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		h.keep("secret of "+s.StationID.String(), issued.MQTT.Password)
		if s.StationID == 1042 {
			h.hard = issued.MQTT
		}
		h.keep("token of "+s.StationID.String(), issued.StationToken)
	}
	if _, err := h.g.Admin.Grant(ctx, gatewaytest.Email, "1042", adminapi.GrantTerms{}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []adminapi.NewStation{
		given,
		{StationID: 1044, Locks: 1, Token: given.Token},
		{StationID: 1044, Locks: 1, Secret: h.keep("secret that is none", "SECRET-that-is-nöne"), Token: "token-of-station-1044"},
		{StationID: 1044, Locks: 1, Token: h.keep("token that is none", "token/that%is none")},
	} {
		_, err := h.g.Admin.AddStation(ctx, bad)
		h.hear("the refusal of a station", fmt.Sprint(err))
	}
	for _, scope := range []site.Scope{{UnlockAll: true}, {Unlock: []site.StationID{999}}} {
		issued, err := h.g.Admin.AddToken(ctx, adminapi.NewToken{Name: "Lobby", Scopes: scope})
		if h.hear("the refusal of a token", fmt.Sprint(err)); err == nil {
			h.keep("integration token", issued.Text)
		}
	}
	rotated, err := h.g.Admin.Rotate(ctx, 1043)
	if err != nil {
		t.Fatal(err)
	}
	h.keep("rotated secret of 1043", rotated.MQTT.Password)
}

// sessions logs in and out, well and badly, and applies a site.
func (h *canaryHouse) sessions() {
	password := h.secrets["password of the porter"]
	var porterRefresh string
	h.porter, porterRefresh = h.login("the porter", gatewaytest.Email, password)
	gone, goneRefresh := h.login("a session that ends", gatewaytest.Email, password)
	h.admin, _ = h.login("the administrator", adminEmail, h.secrets["generated password"])
	for _, body := range []string{
		object("email", gatewaytest.Email, "password", h.keep("mistyped password", "pass word of the porter")),
		object("email", password, "password", gatewaytest.Email),
		object("email", "nobody@example.test", "password", password),
		object("email", gatewaytest.Email, "passwort", password),
		`{"email":"` + gatewaytest.Email + `","password":["` + h.secrets["mistyped password"] + `"]}`,
	} {
		h.do(http.MethodPost, "/v1/auth/login", "", body)
	}
	var renewed struct{ AccessToken string }
	h.want(&renewed, http.MethodPost, "/v1/auth/refresh", "", object("refreshToken", porterRefresh),
		"access token of a renewal", "access token of the porter")
	h.keep("access token of a renewal", renewed.AccessToken)
	h.keep("sid of the porter", sidOf(h.t, h.porter))
	h.want(nil, http.MethodPost, "/v1/auth/revoke", "", object("refreshToken", goneRefresh))
	for _, dead := range []string{goneRefresh, h.keep("refresh token of nobody", "6f1c2b3a-1111-4222-8333-444455556666"), h.porter} {
		h.do(http.MethodPost, "/v1/auth/refresh", "", object("refreshToken", dead))
		h.do(http.MethodPost, "/v1/auth/revoke", "", object("refreshToken", dead))
	}
	h.do(http.MethodPost, "/v1/auth/revoke-all", gone, "")
	h.want(nil, http.MethodPut, "/admin/v1/accounts/"+gatewaytest.Email+"/password", h.admin, object("password", h.keep("new password of the porter", "the porter's second password")))
	h.apply()
}

// apply makes a site, well and badly.
func (h *canaryHouse) apply() {
	stated := sitefile.Site{
		Accounts: []sitefile.Account{
			{Email: gatewaytest.Email, Password: site.Secret(h.keep("password by a site", "the porter's third password"))}, {Email: "made@example.test"},
		},
		Stations: []sitefile.Station{
			{ID: 1045, Secret: site.Secret(h.keep("secret of 1045", "SECRETOF1045BYASITE2345672")), Token: site.Secret(h.keep("token of 1045", "token-of-1045-by-a-site"))}, {ID: 1046},
		},
		Grants: []sitefile.Grant{{Account: site.Ref{Email: gatewaytest.Email}, Stations: []site.Ref{{Station: 1045}}}},
	}
	body := func() string {
		text, _ := json.Marshal(adminapi.ApplyRequest{Site: stated})
		return string(text)
	}
	var done adminapi.Applied
	h.want(&done, http.MethodPost, "/admin/v1/apply", h.admin, body(),
		"password by apply", "secret of 1045", "token of 1045", "secret of 1046", "token of 1046")
	h.keep("password by apply", done.Accounts[0].Password)
	h.keep("secret of 1046", done.Stations[1].MQTT.Password)
	h.keep("token of 1046", done.Stations[1].StationToken)
	h.want(nil, http.MethodPost, "/admin/v1/apply", h.admin, body())
	stated.Accounts[0].Password = site.Secret(h.keep("hopeless password", strings.Repeat("hopeless-password", 100)))
	h.do(http.MethodPost, "/admin/v1/apply", h.admin, body())
	stated.Accounts[0].Password = ""
	stated.Stations[1] = sitefile.Station{ID: 1047, Secret: site.Secret(h.keep("hopeless secret", "hopeless\tsecret-of-1047")), Token: stated.Stations[0].Token}
	h.do(http.MethodPost, "/admin/v1/apply", h.admin, body())
}

// doors reads stations, follows one and opens its locks, with and without leave.
func (h *canaryHouse) doors() {
	token, other := h.secrets["token of 1042"], h.secrets["token of 1043"]
	open := func(token, path string) { h.do(http.MethodPost, path+token+"/locks/1/unlock", h.porter, "") }
	open(token, "/v1/stations/") // offline
	station := h.g.Dial(h.hard)
	go func() {
		for {
			c, err := station.NextCommand()
			if err != nil || station.TryAck(c) != nil {
				return
			}
			_ = station.TrySend(0x30, slices.Concat(text("stations/1042/result"), []byte(object("id", c.ID, "result", "done"))))
		}
	}()
	h.g.AwaitOnline(1042, true)
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	events := h.follow(ctx, token)
	for _, path := range []string{"/v1/stations/", "/local/v1/stations/"} {
		open(token, path)
		open(other, path)
		h.do(http.MethodGet, path+token, h.porter, "")
		h.do(http.MethodGet, path+other, h.porter, "")
	}
	h.send(http.MethodPost, "/v1/stations/"+token+"/locks/1/unlock", "", map[string]string{
		"Authorization": "Bearer " + h.porter, "Idempotency-Key": h.keep("key of a retry", "key-of-a-retry-0123456789"),
	})
	h.do(http.MethodGet, "/local/v1/stations", h.porter, "", "token of 1042", "token of 1045")
	h.do(http.MethodPost, "/v1/stations/"+token+"/locks/1/unlock", h.secrets["integration token"], "")
	station.Publish("report", []byte(`{"batteryVoltage":3.5,"firmware":"1.0","locks":[{"lockId":"lock-2","status":"jammed"}]}`))
	station.Publish("report", []byte(`{"batteryVoltage":"`+h.keep("words of a station", "words-of-a-station-012345")+`"}`))
	station.Publish("result", []byte(`{"id":"`+h.secrets["words of a station"]+`","result":"done"}`))
	h.hear("the stream of events", events(`"jammed"`))
	h.g.AwaitRecord("the lock has changed", func(r site.Record) bool { return r.Kind == site.KindLockChanged })
}

// follow opens the stream of a station's events; the function that it returns waits for
// a text in it, and returns everything up to there.
func (h *canaryHouse) follow(ctx context.Context, token string) func(until string) string {
	h.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.https+"/local/v1/stations/"+token+"/events", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.porter)
	req.Header.Set("Last-Event-ID", h.keep("event id of a stranger", "event-id-of-a-stranger-1"))
	resp, err := h.client.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		h.t.Fatalf("following: %v", err)
	}
	return func(until string) string {
		defer func() { _ = resp.Body.Close() }()
		var text strings.Builder
		for lines := bufio.NewReader(resp.Body); !strings.Contains(text.String(), until); {
			line, err := lines.ReadString('\n')
			if err != nil {
				h.t.Fatalf("the stream ended after %q: %v", text.String(), err)
			}
			text.WriteString(line)
		}
		return text.String()
	}
}

// hardware connects stations with right, old and wrong secrets, and with secrets
// where they do not belong.
func (h *canaryHouse) hardware() {
	for name, secret := range h.secrets {
		for _, version := range []byte{4, 5} {
			for _, c := range [][]byte{
				hello(version, 0xc2, text("station-1043"), text("station-1043"), text(secret)),
				hello(version, 0xc2, text(secret), text("station-1043"), text(secret)),
				hello(version, 0xc2, text("station-1043"), text(secret), text(secret)),
				hello(version, 0x02, text(secret)),
			} {
				h.hear("the answer to a CONNECT with the "+name, string(rawExchange(h.t, h.g.MQTT, c)))
			}
		}
	}
	secret := h.secrets["rotated secret of 1043"]
	for _, version := range []byte{4, 5} {
		right := hello(version, 0xc2, text("station-1043"), text("station-1043"), text(secret))
		for _, c := range [][]byte{
			packet(0x30, text("stations/"+secret+"/report")), packet(0x82, []byte{0, 1}, text(secret), []byte{1}), []byte(secret),
		} {
			h.hear("the answer to a packet with a secret", string(rawExchange(h.t, h.g.MQTT, append(slices.Clone(right), c...))))
		}
	}
	for _, c := range hostilePackets("station-1043", secret) {
		h.hear("the answer to "+c.name, string(rawExchange(h.t, h.g.MQTT, c.bytes)))
	}
}

// strangers puts every secret where it does not belong in a request, and sends what
// is no request.
func (h *canaryHouse) strangers() {
	for name, secret := range h.secrets {
		if name == "key of the tokens" || len(secret) > 1000 { // no header takes them
			continue
		}
		escaped := url.PathEscape(secret)
		everywhere := map[string]string{
			"Authorization": "Bearer " + secret, "Cookie": secret, "X-Api-Key": secret, "User-Agent": secret,
			"Referer": "http://x/?" + escaped, "Idempotency-Key": secret, "Last-Event-ID": secret, "X-Forwarded-For": secret,
		}
		for _, path := range []string{
			"/v1/stations/" + escaped, "/v1/stations/" + escaped + "/locks/" + escaped + "/unlock", "/" + escaped, "//" + escaped,
			"/v1/webhooks/" + escaped, "/local/v1/commands/" + escaped, "/admin/v1/" + escaped, "/v1/auth/login?password=" + url.QueryEscape(secret),
		} {
			h.do(http.MethodGet, path, h.porter, "")
			h.do(http.MethodPost, path, h.porter, object("email", secret, secret, secret))
			h.send(http.MethodGet, path, "", everywhere)
		}
		h.do(http.MethodPost, "/v1/auth/refresh", "", object("refreshToken", secret),
			"access token of the porter", "access token of a renewal", "access token of the administrator")
		// An administrator reads his own words.
		h.do(http.MethodGet, "/admin/v1/stations/"+escaped, h.admin, "", name)
		h.do(http.MethodGet, "/admin/v1/journal?kind="+url.QueryEscape(secret)+"&"+url.QueryEscape(secret)+"=1", h.admin, "", name)
		h.do(http.MethodPut, "/admin/v1/accounts/"+escaped+"/password", h.admin, object("password", secret), name)
		h.do(http.MethodPost, "/admin/v1/stations", h.admin, object("stationId", secret, secret, secret), name)
	}
	h.want(nil, http.MethodPost, "/v1/auth/revoke-all", h.porter, "")
	token := h.secrets["token of 1042"]
	fill := strings.NewReplacer("STATION", token, "STATIO", token[:25], "FOREIGN", h.secrets["token of 1043"],
		"BEARER", h.porter, "BEARE", h.porter[:len(h.porter)-1], "REFRESH", h.secrets["refresh token of nobody"])
	for _, c := range hostileRequests() {
		h.hear("the answer to "+c.name, string(rawExchange(h.t, strings.TrimPrefix(h.g.HTTP, "http://"), []byte(fill.Replace(c.bytes)))))
	}
}

// telltales asks for everything that tells of the gateway.
func (h *canaryHouse) telltales() {
	for _, path := range []string{
		"/metrics", "/healthz", "/readyz", "/v1/openapi.json", "/admin/v1/status", "/admin/v1/accounts", "/admin/v1/stations",
		"/admin/v1/grants", "/admin/v1/tokens", "/admin/v1/accounts/" + gatewaytest.Email + "/sessions", "/admin/v1/journal", "/admin/v1/journal/verify", "/admin/v1/database",
	} {
		h.want(nil, http.MethodGet, path, h.admin, "")
	}
	records, err := json.Marshal(h.g.Records())
	if err != nil {
		h.t.Fatal(err)
	}
	h.hear("the journal", string(records))
	for _, kind := range []site.Kind{
		site.KindLogin, site.KindLoginFailed, site.KindSessionRevoked, site.KindAccountAdded, site.KindAccountChanged, site.KindStationAdded,
		site.KindStationRotated, site.KindGranted, site.KindTokenAdded, site.KindUnlock, site.KindStationOnline, site.KindLockChanged,
	} {
		if !strings.Contains(string(records), `"kind":"`+string(kind)+`"`) {
			h.t.Errorf("nothing of kind %s has happened", kind)
		}
	}
	h.files("while it runs")
}

// files hears every file of the gateway but the key. The tokens of stations stand in
// the database, because apps and administrators are shown them again.
func (h *canaryHouse) files(when string) {
	entries, err := os.ReadDir(h.g.Config.Data)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "token.key" || !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(h.g.Config.Data, e.Name()))
		if err != nil {
			h.t.Fatal(err)
		}
		h.hear(e.Name()+" "+when, string(text), "token of 1042", "token of 1043", "token of 1045", "token of 1046")
	}
}
