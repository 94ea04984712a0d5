package certificate_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/fault"
)

// No key, nor what a key file holds in its place, is disclosed anywhere.
func TestKeeper_canaries(t *testing.T) {
	h := newHouse(t)
	ordered := order(t, nil)
	canary := "canary-" + rand.Text()
	var heard strings.Builder
	hear := func(texts ...any) {
		for _, text := range texts {
			if err, ok := text.(error); ok {
				heard.WriteString(fault.Sentence(err))
			}
			for _, verb := range []string{"%v", "%+v", "%#v", "%x"} {
				heard.WriteString(strings.ToLower(format(verb, text)))
			}
		}
	}
	k := h.start()
	var secrets []string
	for name, text := range h.files() {
		if strings.HasSuffix(name, ".key") {
			secrets = append(secrets, insides(text)...)
		}
	}
	hear(k, k.Info(), k.TLS(), string(k.CA()))
	h.configure(ordered)
	hear(k.Reload(h.cfg.Certificate, h.cfg.Key), k, k.Info())
	secrets = append(secrets, insides(ordered.key)...)
	for _, key := range []string{
		canary, "-----BEGIN PRIVATE KEY-----\n" + canary, "-----BEGIN PRIVATE KEY-----\n" + strings.ReplaceAll(canary, "-", "") + "AAA\n-----END PRIVATE KEY-----\n",
		ordered.key[:100], strings.Replace(ordered.key, "\nM", "\nA", 1), order(t, nil).cert,
	} {
		h.configure(pair{ordered.cert, key})
		hear(certificate.Check(h.cfg.Certificate, h.cfg.Key), k.Reload(h.cfg.Certificate, h.cfg.Key), k, h.start().Info())
	}
	h.configure(pair{canary, canary})
	hear(certificate.Check(h.cfg.Certificate, h.cfg.Key))
	write(t, h.path("ca.key"), canary)
	write(t, h.path("server.key"), canary)
	hear(k.Reload("", ""), k, k.Info(), h.conditions.Conditions(), h.log.String())
	secrets = append(secrets, canary, strings.ReplaceAll(canary, "-", ""))
	for _, secret := range secrets {
		if len(secret) < 20 || strings.Contains(heard.String(), strings.ToLower(secret)) {
			t.Errorf("%q came out", secret)
		}
	}
	if heard.Len() < 10_000 || len(secrets) < 17 {
		t.Errorf("heard %d bytes for %d secrets", heard.Len(), len(secrets))
	}
}

func format(verb string, value any) string { return fmt.Sprintf(verb, value) }

// insides returns the forms in which the secret of a key could come out: the lines of
// its PEM, and its number in decimal and hexadecimal.
func insides(key string) []string {
	block, _ := pem.Decode([]byte(key))
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil
	}
	secret, err := parsed.(*ecdsa.PrivateKey).Bytes()
	if err != nil {
		return nil
	}
	text := fmt.Sprint(secret) // [1 2 3 …], as a printed slice of bytes
	lines := strings.Split(strings.TrimSpace(key), "\n")
	return append(lines[1:3], fmt.Sprintf("%x", secret), new(big.Int).SetBytes(secret).String(), text[1:len(text)-1])
}
