package mqttclient_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"gatehouse/internal/cloud/mqttclient"
)

// authority is a CA for a test.
type authority struct {
	key  crypto.Signer
	cert *x509.Certificate
}

// The time in which all certificates of these tests are valid. It has passed.
func from() time.Time   { return time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC) }
func until() time.Time  { return time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC) }
func during() time.Time { return time.Date(2021, 7, 1, 0, 0, 0, 0, time.UTC) }

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t testing.TB, name string) authority {
	t.Helper()
	a := authority{key: newKey(t)}
	a.cert = certify(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a.key.Public(), a.key, nil)
	return a
}

func certify(t testing.TB, template *x509.Certificate, key crypto.PublicKey, by crypto.Signer, parent *x509.Certificate) *x509.Certificate {
	t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), from(), until()
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issue makes a certificate for a name.
func (a authority) issue(t testing.TB, name string) tls.Certificate {
	t.Helper()
	key := newKey(t)
	cert := certify(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key.Public(), a.key, a.cert)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a authority) pem() string { return certificatePEM(a.cert.Raw) }

func certificatePEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func keyPEM(t testing.TB, key crypto.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// secured is a configuration for a broker of that name with TLS.
func secured(t testing.TB, name string, server *tls.Config, play func(p *peer)) mqttclient.Config {
	t.Helper()
	server.Time = during
	b := listen(t, func(p *peer) {
		secure := tls.Server(p.Conn, server)
		if secure.Handshake() == nil {
			play(newPeer(secure))
		}
	})
	cfg := config("tls://" + name)
	cfg.Now = during
	cfg.Open = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, b.listener.Addr().String())
	}
	return cfg
}

func TestDial_tls(t *testing.T) {
	ca, other := newAuthority(t, "The CA"), newAuthority(t, "Another CA")
	server := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "broker.example")}}
	good := secured(t, "broker.example", server, (*peer).serve)
	good.CA = file(t, other.pem()+ca.pem())
	c := dial(t, good)
	d := c.Publish(mqttclient.Message{Topic: "a", QoS: 1})
	within(t, "a delivery", d.Done())
	if d.Err() != nil {
		t.Error(d.Err())
	}
	c.Close()
	for name, test := range map[string]struct {
		change        func(cfg *mqttclient.Config)
		error, advice string
	}{
		"system's roots":  {func(cfg *mqttclient.Config) { cfg.CA = "" }, "unknown authority", "the CA of its certificate"},
		"another CA":      {func(cfg *mqttclient.Config) { cfg.CA = file(t, other.pem()) }, "unknown authority", "the CA of its certificate"},
		"another name":    {func(cfg *mqttclient.Config) { cfg.URL = "tls://other.example" }, "valid for broker.example, not other.example", "valid for other.example"},
		"an address":      {func(cfg *mqttclient.Config) { cfg.URL = "tls://127.0.0.1" }, "127.0.0.1", "valid for 127.0.0.1"},
		"expired":         {func(cfg *mqttclient.Config) { cfg.Now = func() time.Time { return until().Add(time.Second) } }, "expired or is not yet valid", "at 2022-01-01T00:00:01Z"},
		"not yet valid":   {func(cfg *mqttclient.Config) { cfg.Now = func() time.Time { return time.Unix(0, 0) } }, "expired or is not yet valid", "at 1970-01-01T00:00:00Z"},
		"system's clock":  {func(cfg *mqttclient.Config) { cfg.Now = nil }, "expired or is not yet valid", "the time of this machine"},
		"no TLS spoken":   {func(cfg *mqttclient.Config) { cfg.URL = "tcp://broker.example" }, "", "with tls:// if it wants TLS"},
		"just good again": {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			if test.change == nil {
				dial(t, cfg)
				return
			}
			test.change(&cfg)
			step := mqttclient.StepTLS
			if cfg.URL == "tcp://broker.example" {
				cfg.CA, step = "", mqttclient.StepLogin
			}
			failed := refusedAt(t, cfg, step)
			contains(t, "the error", failed.Error(), test.error)
			contains(t, "the advice", failed.Advice, test.advice)
		})
	}
}

// Who answers with a certificate that he has signed himself chooses its names, and with
// them the text of the error: what is said of it stays short and on one line.
func TestDial_hostileNames(t *testing.T) {
	key := newKey(t)
	cert := certify(t, &x509.Certificate{
		Subject:  pkix.Name{CommonName: "x"},
		DNSNames: append([]string{"a.example", "\x1b[2J\nMAINPID=1\n"}, slices.Repeat([]string{strings.Repeat("x", 2500)}, 90)...),
	}, key.Public(), key, nil)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
	failed := refusedAt(t, secured(t, "broker.example", server, (*peer).serve), mqttclient.StepTLS)
	contains(t, "the advice", failed.Advice, "valid for broker.example")

	cfg := config("tcp://broker.example")
	cfg.Open = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("a.example \u202e\u2028\xff" + strings.Repeat("ä", 2500))
	}
	other := refusedAt(t, cfg, mqttclient.StepConnect)
	for _, text := range []string{failed.Error(), failed.Err.Error(), other.Error(), other.Err.Error()} {
		unfit := func(r rune) bool { return !unicode.IsPrint(r) }
		if utf8.RuneCountInString(text) > 350 || strings.ContainsFunc(text, unfit) || !utf8.ValidString(text) || !strings.Contains(text, "a.example") {
			t.Errorf("the error has %d bytes: %q", len(text), text)
		}
	}
}

// A client certificate, the lack of one, and one that was renewed.
func TestDial_clientCertificate(t *testing.T) {
	ca := newAuthority(t, "The CA")
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		names := make(chan string, 1)
		server := &tls.Config{
			Certificates: []tls.Certificate{ca.issue(t, "broker.example")}, ClientCAs: pool,
			ClientAuth: tls.RequireAndVerifyClientCert, MaxVersion: version,
		}
		cfg := secured(t, "broker.example", server, func(p *peer) {
			names <- p.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
			p.serve()
		})
		cfg.CA = file(t, ca.pem())
		step := mqttclient.StepTLS
		if version == tls.VersionTLS13 { // the client is done before the broker has looked
			step = mqttclient.StepLogin
		}
		contains(t, "the advice", refusedAt(t, cfg, step).Advice, "client certificate")
		cfg.Certificate, cfg.Key = file(t, ""), file(t, "")
		for _, name := range []string{"first", "renewed"} {
			pair := ca.issue(t, name)
			overwrite(t, cfg.Certificate, certificatePEM(pair.Certificate[0]))
			overwrite(t, cfg.Key, keyPEM(t, pair.PrivateKey))
			dial(t, cfg).Close()
			if got := <-names; got != name {
				t.Errorf("the broker sees the certificate of %q, want %q", got, name)
			}
		}
		overwrite(t, cfg.Key, keyPEM(t, newKey(t)))
		contains(t, "the error", refusedAt(t, cfg, mqttclient.StepConfiguration).Error(), "private key does not match")
		stranger := newAuthority(t, "A stranger").issue(t, "stranger")
		overwrite(t, cfg.Certificate, certificatePEM(stranger.Certificate[0]))
		overwrite(t, cfg.Key, keyPEM(t, stranger.PrivateKey))
		contains(t, "the advice", refusedAt(t, cfg, step).Advice, "client certificate")
	}
}

func overwrite(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A port without TLS, by what it does with a handshake.
func TestDial_tlsToPlain(t *testing.T) {
	for name, play := range map[string]func(p *peer){
		"closes":  func(p *peer) { _, _ = p.Read(make([]byte, 100)) },
		"answers": func(p *peer) { p.say([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); p.silent() },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config("tls" + listen(t, play).url()[3:])
			contains(t, "the advice", refusedAt(t, cfg, mqttclient.StepTLS).Advice, "TLS listener")
		})
	}
}

// The end of the connection does not wait for a farewell of TLS that nobody reads.
func TestConn_tlsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t, "The CA")
		server := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "broker.example")}, Time: during, SessionTicketsDisabled: true}
		end := make(chan struct{})
		cfg := piped(t, func(p *peer) {
			_, _ = newPeer(tls.Server(p.Conn, server)).welcome(0)
			<-end
		})
		cfg.URL, cfg.Now, cfg.CA = "tls://broker.example", during, file(t, ca.pem())
		c := dial(t, cfg)
		began := time.Now()
		c.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %s", took)
		}
		close(end)
	})
}
