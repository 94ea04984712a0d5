package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"gatehouse/internal/web/adminapi"
)

const (
	host        = "10.0.2.2"                           // this machine, as the emulated one sees it
	authorities = "/etc/ssl/certs/ca-certificates.crt" // of the image
)

// serveUpdates serves the update files to the machine, over HTTP and HTTPS.
func (t *trial) serveUpdates(ctx context.Context) error {
	certificate, err := t.certify()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: t.offer(), ReadHeaderTimeout: time.Minute}
	private := &http.Server{
		Handler: t.offer(), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, plain.Close())
	}
	t.updates, t.secure = "http://"+address(plain), "https://"+address(secure)
	go func() { _ = server.Serve(plain) }()
	go func() { _ = private.ServeTLS(secure, "", "") }()
	context.AfterFunc(ctx, func() { _, _ = server.Close(), private.Close() })
	return nil
}

// address returns where the emulated machine finds a listener.
func address(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return net.JoinHostPort(host, port) + "/"
}

// certify makes the certificate of the server. It is its own authority.
func (t *trial) certify() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.ParseIP(host)},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(7 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	t.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, err
}

// appendTo appends to a file.
func appendTo(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// order has the gateway ask root for an update, as the console does, and returns when the machine
// restarts. An update that ends before is the error.
func (t *trial) order(ctx context.Context, m *machine, c *client, url string) error {
	if err := c.login(ctx, t.site.Admin, t.site.Word); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		return err
	}
	start, update := m.starts(), c.base+"/admin/v1/update"
	before, err := c.update(ctx)
	if err != nil {
		return err
	}
	if _, _, err := request(ctx, c.http, http.MethodPost, update, c.bearer, string(body)); err != nil {
		return err
	}
	return await(ctx, "the machine restarts", func() error {
		if m.starts() != start {
			return nil
		}
		if err := m.checkRunning(); err != nil {
			return final{err}
		}
		pause(ctx, 3*time.Second)
		now, err := c.update(ctx)
		if err != nil {
			return err
		}
		err = errors.New(strings.Join(now.Sentences, " "))
		if !reflect.DeepEqual(now.Last, before.Last) {
			return final{err}
		}
		return err
	})
}

// update returns how updates stand, for an administrator.
func (c *client) update(ctx context.Context) (u adminapi.Update, err error) {
	answer, _, err := get(ctx, c.http, c.base+"/admin/v1/update", c.bearer)
	if err == nil {
		err = json.Unmarshal(answer, &u)
	}
	return u, err
}
