package gateway_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gatehouse/internal/gateway"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

// aviary keeps the secrets of one run, and everything that came out of the gateway.
type aviary struct {
	t       *testing.T
	secrets map[string]string // clear text by name
	outputs []output
}

// output is a text that left the gateway, with the names of the secrets that belong
// in it.
type output struct {
	name, text string
	may        []string
}

// keep registers a secret and returns it back.
func (a *aviary) keep(name, secret string) string {
	a.t.Helper()
	if len(secret) < 16 {
		a.t.Fatalf("the %s is too short to be told from chance: %q", name, secret)
	}
	a.secrets[name] = secret
	return secret
}

// hear registers an output.
func (a *aviary) hear(name, text string, may ...string) {
	a.outputs = append(a.outputs, output{name, text, may})
}

// forms are the ways in which a secret may be written.
func forms(secret string) []string {
	quoted, _ := json.Marshal(secret)
	list := []string{
		secret, strings.Trim(strconv.Quote(secret), `"`), strings.Trim(string(quoted), `"`), url.QueryEscape(secret), url.PathEscape(secret),
		hex.EncodeToString([]byte(secret)),
		base64.RawStdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	for _, plain := range regexp.MustCompile(`[\w-]{16,}`).FindAllString(secret, -1) { // survives any escaping
		if !strings.HasPrefix(plain, "eyJ") { // the header and the claims of an access token are no secret
			list = append(list, plain)
		}
	}
	if uuid, err := hex.DecodeString(strings.ReplaceAll(secret, "-", "")); err == nil {
		list = append(list, string(uuid), hex.EncodeToString(uuid))
	}
	return list
}

// leaks names what came out where it does not belong.
func (a *aviary) leaks() (found []string) {
	for name, secret := range a.secrets {
		written := forms(secret)
		for _, o := range a.outputs {
			if slices.Contains(o.may, name) {
				continue
			}
			for _, form := range written {
				if i := strings.Index(o.text, form); i >= 0 {
					found = append(found, fmt.Sprintf("%s has the %s: …%q…", o.name, name, o.text[max(0, i-100):min(len(o.text), i+len(form)+20)]))
					break
				}
			}
		}
	}
	return found
}

// logBuffer takes a log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// canaryHouse is a gateway with the aviary that watches it.
type canaryHouse struct {
	*aviary
	g      *gatewaytest.Gateway
	log    *logBuffer
	stop   func()
	https  string             // base URL of what has a certificate
	client *http.Client       // which trusts it
	porter string             // an access token
	admin  string             // likewise
	hard   adminapi.MQTTLogin // of station 1042
	cloud  *canaryCloud
}

// runCanary runs a gateway whose log has that format, with the level at debug.
func runCanary(t *testing.T, handler func(io.Writer, *slog.HandlerOptions) slog.Handler) *canaryHouse {
	t.Helper()
	cfg := gatewaytest.Configure(t)
	h := &canaryHouse{aviary: &aviary{t: t, secrets: map[string]string{}}, log: &logBuffer{}}
	cfg.HTTP.TLSListen = []string{"127.0.0.1:0"}
	cfg.TLS.Certificate, cfg.TLS.Key, h.client = certificate(t)
	h.cloud = newCanaryCloud(t, h.keep("password at the cloud", "password-of-north-gate-at-the-cloud"), &cfg.Cloud)
	logger := slog.New(handler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	running, err := gateway.New(t.Context(), gateway.Config{Config: cfg, Version: "test", Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(h.stop)
	h.g = &gatewaytest.Gateway{T: t, Config: cfg, Running: running, Admin: client.New(cfg.AdminSocket())}
	for _, l := range running.Status().Listeners {
		switch l.Name {
		case "http":
			h.g.HTTP = "http://" + l.Address
		case "https":
			h.https = "https://" + l.Address
		case "mqtt":
			h.g.MQTT = l.Address
		}
	}
	key, err := os.ReadFile(filepath.Join(cfg.Data, "token.key"))
	if err != nil {
		t.Fatal(err)
	}
	h.keep("key of the tokens", string(key))
	return h
}

// certificate returns the files of a certificate with its key, and a client that trusts
// it.
func certificate(t *testing.T) (cert, key string, trusting *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, block := range map[string]pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(&block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"), server.Client()
}

// do sends a request and hears its answer.
func (h *canaryHouse) do(method, path, bearer, body string, may ...string) (status int, answer []byte) {
	h.t.Helper()
	return h.send(method, path, body, map[string]string{"Authorization": "Bearer " + bearer}, may...)
}

func (h *canaryHouse) send(method, path, body string, header map[string]string, may ...string) (status int, answer []byte) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.https+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	whole, err := httputil.DumpResponse(resp, true)
	if err != nil {
		h.t.Fatal(err)
	}
	h.hear("the answer to "+method+" "+path, string(whole), may...)
	_, answer, _ = bytes.Cut(whole, []byte("\r\n\r\n"))
	return resp.StatusCode, answer
}

// want is do for a request that must succeed; it returns fields of the answer.
func (h *canaryHouse) want(fields any, method, path, bearer, body string, may ...string) {
	h.t.Helper()
	status, answer := h.do(method, path, bearer, body, may...)
	if status/100 != 2 {
		h.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	if err := json.Unmarshal(answer, fields); fields != nil && err != nil {
		h.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
	}
}

// login logs in and keeps the tokens under a name. Within one second, a session
// gets the same access token again.
func (h *canaryHouse) login(name, email, password string) (access, refresh string) {
	h.t.Helper()
	var tokens struct{ AccessToken, RefreshToken string }
	h.want(&tokens, http.MethodPost, "/v1/auth/login", "", object("email", email, "password", password),
		"access token of "+name, "refresh token of "+name, "access token of a renewal")
	return h.keep("access token of "+name, tokens.AccessToken), h.keep("refresh token of "+name, tokens.RefreshToken)
}

// sidOf returns the secret by which an access token names its session.
func sidOf(t *testing.T, access string) string {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(access, ".")[1])
	var claims struct{ SID string }
	if err = errors.Join(err, json.Unmarshal(payload, &claims)); err != nil {
		t.Fatal(err)
	}
	return claims.SID
}

// object is a JSON object of texts.
func object(pairs ...string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	text, _ := json.Marshal(m)
	return string(text)
}
