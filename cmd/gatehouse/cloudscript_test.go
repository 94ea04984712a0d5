package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/need"
)

// TestCloudScripts runs testdata/cloud beside a broker that speaks TLS, $BROKER, with
// the certificate $CA, and in which the users gw (a gateway) and app (an application)
// have the rights of the guide; their passwords are "gw secret" and "app
// secret".
func TestCloudScripts(t *testing.T) {
	need.Program(t, "mosquitto")
	dir := t.TempDir()
	certificate, key := selfSigned(t, dir)
	acl := filepath.Join(dir, "acl")
	if err := os.WriteFile(acl, []byte(brokerRights), 0o600); err != nil {
		t.Fatal(err)
	}
	broker := brokertest.Mosquitto(t,
		brokertest.Users(map[string]string{"gw": "gw secret", "app": "app secret"}),
		brokertest.ACL(acl), brokertest.TLS(certificate, key, ""))
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/cloud",
		Cmds:                scriptCommands(),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("BROKER", broker.URL())
			env.Setenv("ADDRESS", broker.Address())
			env.Setenv("CA", certificate)
			return prepare(t, env)
		},
	})
}

const brokerRights = `user gw
topic write gateways/+/status
topic write gateways/+/journal
topic write gateways/+/live
topic write gateways/+/result
topic write gateways/+/stations/+/state
topic read gateways/+/command
topic read gateways/+/ack
user app
topic write gateways/+/command
topic write gateways/+/ack
topic read gateways/#
`

// selfSigned writes a certificate for 127.0.0.1 that is its own authority, valid for
// another ten days and a bit.
func selfSigned(t *testing.T, dir string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10*24*time.Hour + time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, "broker.pem"), filepath.Join(dir, "broker.key")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}
