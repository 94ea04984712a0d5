package trust_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"encoding/xml"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"gatehouse/internal/metric"
	"gatehouse/internal/test/webtest"
	"gatehouse/internal/web/kit"
	"gatehouse/internal/web/trust"
)

// newAuthority returns a certificate whose subject has that name.
func newAuthority(t *testing.T, name string) (der []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}} //nolint:misspell // a field of the standard library
	der, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// twice returns a PEM file with two certificates, as the gateway's is.
func twice(first, second []byte) []byte {
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: first}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: second})...)
}

// guide is the page of a gateway.
type guide struct {
	t         *testing.T
	name      string
	port      string
	authority []byte
	metrics   *metric.Registry
}

func (g guide) routes() []kit.Route {
	return trust.Routes(g.name, g.port, func() []byte { return g.authority })
}

func (g guide) handler() http.Handler {
	names := func() []string { return []string{"gate", "gate.local"} }
	return kit.New(kit.Config{Metrics: g.metrics, Logger: slog.New(slog.DiscardHandler), Names: names}).Handler(false, g.routes())
}

// get sends a request with a Host and a User-Agent.
func (g guide) get(path, host, agent string) *httptest.ResponseRecorder {
	g.t.Helper()
	g.metrics = metric.New()
	r := httptest.NewRequestWithContext(g.t.Context(), http.MethodGet, path, http.NoBody)
	r.Host = host
	r.Header.Set("User-Agent", agent)
	w := httptest.NewRecorder()
	g.handler().ServeHTTP(w, r)
	if w.Header().Get("Set-Cookie") != "" {
		g.t.Errorf("%s sets a cookie", path)
	}
	return w
}

func TestEdges(t *testing.T) {
	g := guide{t, "gate", "443", twice(newAuthority(t, "Gatehouse gate"), newAuthority(t, "x")), metric.New()}
	webtest.Table{Handler: g.handler(), Routes: g.routes(), Metrics: g.metrics, Path: strings.NewReplacer()}.Check(t)
}

func TestPage(t *testing.T) {
	der := newAuthority(t, "Gatehouse gate (1a2b3c4d)")
	sum := sha256.Sum256(der)
	fingerprint := regexp.MustCompile("(..)").ReplaceAllString(strings.ToUpper(hex.EncodeToString(sum[:])), "$1:")
	g := guide{t: t, name: "gate", port: "443", authority: twice(der, newAuthority(t, "x"))}
	got := g.get("/trust", "gate.local", "")
	page := strings.ReplaceAll(got.Body.String(), "<wbr>", "")
	for _, want := range []string{
		"<h1>Trust the gateway “gate”</h1>", strings.TrimSuffix(fingerprint, ":") + "</code>", "“Gatehouse gate (1a2b3c4d)”",
		`src="https://gate.local/trust/check.svg"`, `href="/gatehouse.mobileconfig"`, `href="/ca.der"`, `href="/ca.crt"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	if got.Code != 200 || !strings.HasPrefix(got.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self'; img-src https:;") {
		t.Errorf("got %d %v", got.Code, got.Header())
	}
	for _, forbidden := range []string{`<form`, `<script>`, `<style`, ` style=`, ` on[a-z]+=`, `\{[a-z]+\}`, `(src|href)="http:`, `(src|href)="//`} {
		if found := regexp.MustCompile(forbidden).FindString(page); found != "" {
			t.Errorf("the page has %s", found)
		}
	}
	for _, path := range regexp.MustCompile(`(?:src|href)="(/[^"]*)"`).FindAllStringSubmatch(page, -1) {
		if got := g.get(path[1], "gate.local", ""); got.Code != 200 {
			t.Errorf("%s: %d", path[1], got.Code)
		}
	}
}

// The steps of the system that asks are open.
func TestPage_system(t *testing.T) {
	g := guide{t: t, name: "gate", port: "443", authority: twice(newAuthority(t, "x"), newAuthority(t, "x"))}
	for agent, want := range map[string]string{
		"Mozilla/5.0 (iPhone; CPU iPhone OS 26_1 like Mac OS X) AppleWebKit/605.1.15 Version/26.1 Mobile/15E148 Safari/604.1": "ios",
		"Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36 Chrome/142.0.0.0 Mobile Safari/537.36":                   "android",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36":                         "windows",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/26.1 Safari/605.1.15":                   "macos",
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                              "linux",
		"curl/8.14.1": "", "": "",
	} {
		var open []string
		for _, found := range regexp.MustCompile(`<details id=(\w+) open>`).FindAllStringSubmatch(g.get("/trust", "gate", agent).Body.String(), -1) {
			open = append(open, found[1])
		}
		if got := strings.Join(open, " "); got != want {
			t.Errorf("%s: %q is open, want %q", agent, got, want)
		}
	}
}

// The test goes to the host in the request, if that is the gateway's.
func TestPage_host(t *testing.T) {
	g := guide{t: t, name: "gate", port: "8443"}
	for host, want := range map[string]string{
		"gate": "https://gate:8443/", "GATE.local:80": "https://gate.local:8443/", "192.168.1.2": "https://192.168.1.2:8443/",
		"[fd00::1]:80": "https://[fd00::1]:8443/", "localhost:8080": "https://localhost:8443/",
	} {
		if got := g.get("/trust", host, ""); !strings.Contains(got.Body.String(), `href="`+want+`"`) || !strings.Contains(got.Body.String(), `src="`+want+`trust/check.svg"`) {
			t.Errorf("%s: %d without %s", host, got.Code, want)
		}
	}
	for _, host := range []string{
		"evil.example", "gate.local.evil.example", `gate.local"><script>alert(1)</script>`, "gate.local/x", "user@gate.local", "gate.local\r\nSet-Cookie: a=b", "evil.example:80@gate.local", "",
	} {
		got := g.get("/trust", host, "")
		if got.Code != http.StatusMisdirectedRequest || strings.Contains(got.Body.String(), "evil") || strings.Contains(got.Body.String(), "script") {
			t.Errorf("%q: %d %s", host, got.Code, got.Body)
		}
	}
	if got := g.get("/trust", "[fe80::1%25eth0\"]", ""); got.Code < 400 {
		t.Errorf("an address with a zone: %d", got.Code)
	}
}

// A name is a text, whatever it says.
func TestPage_scriptInNames(t *testing.T) {
	const evil = `</title><script>alert('1')</script>&<img src=x onerror="x">`
	g := guide{t: t, name: evil, port: "443", authority: twice(newAuthority(t, evil), newAuthority(t, "x"))}
	if page := g.get("/trust", "gate", evil).Body.String(); strings.Contains(page, "<script>") || strings.Contains(page, "<img src=x") {
		t.Errorf("the page runs what a name says:\n%s", page)
	}
	if _, payload := parse(t, g.get("/gatehouse.mobileconfig", "gate", "").Body.Bytes()); payload["PayloadDisplayName"] != evil {
		t.Errorf("the profile is called %q", payload["PayloadDisplayName"])
	}
}

// Without an authority of its own there is nothing to install, and the test stays.
func TestPage_given(t *testing.T) {
	g := guide{t: t, name: "gate", port: "443"}
	page := g.get("/trust", "gate", "").Body.String()
	if strings.Contains(page, "<details") || strings.Contains(page, "{") || !strings.Contains(page, "nothing to install") || !strings.Contains(page, "check.svg") {
		t.Errorf("the page is\n%s", page)
	}
	for _, path := range []string{"/ca.crt", "/ca.der", "/gatehouse.mobileconfig"} {
		if got := g.get(path, "gate", ""); got.Code != 404 {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
}

func TestDownloads(t *testing.T) {
	der := newAuthority(t, "Gatehouse gate")
	g := guide{t: t, name: "gate", port: "443", authority: twice(der, newAuthority(t, "x"))}
	for path, want := range map[string]struct {
		kind, name string
		body       []byte
	}{
		"/ca.crt": {"application/x-x509-ca-cert", "gatehouse-ca.crt", g.authority},
		"/ca.der": {"application/x-x509-ca-cert", "gatehouse-ca.cer", der},
	} {
		got := g.get(path, "192.0.2.1", "")
		if !bytes.Equal(got.Body.Bytes(), want.body) || got.Header().Get("Content-Type") != want.kind ||
			got.Header().Get("Content-Disposition") != `attachment; filename="`+want.name+`"` {
			t.Errorf("%s: %d %v", path, got.Code, got.Header())
		}
	}
}

// A profile that is installed again replaces the first; that of another authority
// stands beside it.
func TestProfile(t *testing.T) {
	der := newAuthority(t, "Gatehouse gate (1a2b3c4d)")
	g := guide{t: t, name: "gate", port: "443", authority: twice(der, newAuthority(t, "x"))}
	got := g.get("/gatehouse.mobileconfig", "gate", "")
	if got.Header().Get("Content-Type") != "application/x-apple-aspen-config" {
		t.Errorf("its type is %s", got.Header())
	}
	profile, payload := parse(t, got.Body.Bytes())
	content, err := base64.StdEncoding.DecodeString(payload["PayloadContent"])
	if err != nil || !bytes.Equal(content, der) {
		t.Errorf("the certificate is another one: %v", err)
	}
	for key, want := range map[string]string{"PayloadType": "Configuration", "PayloadVersion": "1", "PayloadDisplayName": "Gatehouse gate (1a2b3c4d)"} {
		if profile[key] != want {
			t.Errorf("%s is %q, want %q", key, profile[key], want)
		}
	}
	if payload["PayloadType"] != "com.apple.security.root" || payload["PayloadVersion"] != "1" {
		t.Errorf("the payload is %v", payload)
	}
	id := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	if !id.MatchString(profile["PayloadUUID"]) || !id.MatchString(payload["PayloadUUID"]) || profile["PayloadUUID"] == payload["PayloadUUID"] {
		t.Errorf("the ids are %s and %s", profile["PayloadUUID"], payload["PayloadUUID"])
	}
	if again := g.get("/gatehouse.mobileconfig", "gate", ""); !bytes.Equal(again.Body.Bytes(), got.Body.Bytes()) {
		t.Error("a second profile differs")
	}
	g.authority = twice(newAuthority(t, "Gatehouse gate (1a2b3c4d)"), der)
	other, _ := parse(t, g.get("/gatehouse.mobileconfig", "gate", "").Body.Bytes())
	if other["PayloadUUID"] == profile["PayloadUUID"] || other["PayloadIdentifier"] == profile["PayloadIdentifier"] {
		t.Error("the profiles of two authorities have the same ids")
	}
}

// parse returns the texts of a profile and of its only payload, by key.
func parse(t *testing.T, text []byte) (profile, payload map[string]string) {
	t.Helper()
	type dict struct {
		Keys   []string `xml:"key"`
		Values []struct {
			XMLName xml.Name
			Text    string `xml:",chardata"`
			Inner   struct {
				Keys   []string `xml:"key"`
				Values []struct {
					XMLName xml.Name
					Text    string `xml:",chardata"`
				} `xml:",any"`
			} `xml:"dict"`
		} `xml:",any"`
	}
	var plist struct {
		Dict dict `xml:"dict"`
	}
	if err := xml.Unmarshal(text, &plist); err != nil {
		t.Fatalf("the profile is no XML: %v\n%s", err, text)
	}
	profile, payload = map[string]string{}, map[string]string{}
	for i, key := range plist.Dict.Keys {
		value := plist.Dict.Values[i]
		profile[key] = value.Text
		for j, key := range value.Inner.Keys {
			payload[key] = value.Inner.Values[j].Text
		}
	}
	return profile, payload
}
