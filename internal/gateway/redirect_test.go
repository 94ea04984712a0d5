package gateway_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"gatehouse/internal/gateway"
	"gatehouse/internal/health"
	"gatehouse/internal/test/gatewaytest"
)

// With the sockets that the package's unit holds, port 80 leads to HTTPS and hands out
// what an app has to trust; it takes no password. A port that nothing claims is named.
func TestGateway_portsOfThePackage(t *testing.T) {
	if !gatewaytest.InNamespaces(t) {
		return
	}
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.Listen, cfg.HTTP.TLSListen = nil, []string{"[::]:443"}
	cfg.MQTT.Listen = []string{":1883"}
	var sockets []net.Listener
	for _, address := range []string{"[::]:80", "[::]:443", "[::]:1883", "[::]:8883"} {
		sockets = append(sockets, newSocket(t, address).copy(t))
	}
	g := gatewaytest.RunAs(t, gateway.Config{Config: cfg, Sockets: sockets})
	g.AddAccount()

	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	plain := func(method, path string) (status int, header http.Header, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(text)
	}
	if status, h, _ := plain(http.MethodGet, "/v1/openapi.json?x=1"); status != http.StatusPermanentRedirect || h.Get("Location") != "https://127.0.0.1/v1/openapi.json?x=1" {
		t.Errorf("a browser is answered %d %s", status, h.Get("Location"))
	}
	for _, path := range []string{"/", "/local/v1/session", "/admin/v1/status", "/metrics", "/console/app/main.js"} {
		if status, h, _ := plain(http.MethodGet, path); status != http.StatusPermanentRedirect || h.Get("Location") != "https://127.0.0.1"+path {
			t.Errorf("%s is answered %d %s", path, status, h.Get("Location"))
		}
		if status, h, _ := plain(http.MethodPost, path); status != http.StatusForbidden || h.Get("Set-Cookie") != "" {
			t.Errorf("a POST of %s is answered %d %v", path, status, h)
		}
	}
	for _, path := range []string{"/trust", "/ca.der", "/gatehouse.mobileconfig"} {
		if status, h, _ := plain(http.MethodGet, path); status != http.StatusOK || h.Get("Set-Cookie") != "" {
			t.Errorf("%s is answered %d %v", path, status, h)
		}
	}
	if status, _, body := plain(http.MethodPost, "/v1/auth/login"); status != http.StatusForbidden || !strings.Contains(body, "https") {
		t.Errorf("a login in clear text is answered %d %s", status, body)
	}
	if status, _, _ := plain(http.MethodGet, "/readyz"); status != http.StatusOK {
		t.Errorf("readyz: %d", status)
	}
	status, _, authority := plain(http.MethodGet, "/ca.crt")
	pool := x509.NewCertPool()
	if status != http.StatusOK || !pool.AppendCertsFromPEM([]byte(authority)) {
		t.Fatalf("no certificate to trust: %d %s", status, authority)
	}
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	resp, err := trusting.Post("https://localhost/v1/auth/login", "application/json", strings.NewReader(
		`{"email":"`+gatewaytest.Email+`","password":"`+gatewaytest.Password+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("login over HTTPS: %d", resp.StatusCode)
	}
	trusting.CloseIdleConnections()
	if c := reload(t, g, cfg, nil)[health.SocketUnused]; !strings.Contains(c.Summary, ":8883") || strings.Contains(c.Summary, ":80,") {
		t.Errorf("unused ports are told as %+v", c)
	}
}

// Where the configuration names fewer addresses than the socket has, connections
// to another one are closed.
func TestGateway_socketOfEveryAddress(t *testing.T) {
	if !gatewaytest.InNamespaces(t) {
		return
	}
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.Listen = []string{"127.0.0.2:8080", "127.0.0.3:8080"}
	cfg.MQTT.Listen = []string{"127.0.0.1:1883"}
	g := gatewaytest.RunAs(t, gateway.Config{Config: cfg, Sockets: []net.Listener{
		newSocket(t, "[::]:8080").copy(t), newSocket(t, "[::]:1883").copy(t),
	}})
	for address, want := range map[string]bool{"127.0.0.2": true, "127.0.0.3": true, "127.0.0.1": false, "[::1]": false} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + address + ":8080/healthz")
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s is served: %t (%v), want %t", address, err == nil, err, want)
		}
	}
	if standing := reload(t, g, cfg, nil); standing[health.PlainHTTP].Code != "" || standing[health.SocketUnused].Code != "" {
		t.Errorf("what is loopback alone is warned of: %v", standing)
	}
}
