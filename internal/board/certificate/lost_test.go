package certificate_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/health"
)

// The advice works: without the damaged ca.crt it is made again from its key, and who
// trusts the lost one trusts what it signs.
func TestKeeper_own_lostCA(t *testing.T) {
	bubble(t, func(h *house) {
		old := h.start().CA()
		write(h, h.path("ca.crt"), "damaged")
		h.cfg.Name = "renamed meanwhile"
		k := h.run()
		h.codes(health.CertificateInvalid)
		remove(h, h.path("ca.crt"))
		pass(0)
		h.codes()
		if leaf(h, read(h, h.path("ca.crt"))).Subject.String() != leaf(h, string(old)).Subject.String() {
			h.Error("the CA made again has another subject")
		}
		before := k.Info().Fingerprint
		h.set(today.Add(300*day), true) // renewed by the CA that was made again
		pass(0)
		if k.Info().Fingerprint == before {
			h.Error("not renewed")
		}
		h.accepts(k, h.trusting(old), "gate")
		h.accepts(k, h.trusting(k.CA()), "gate")
		if string(k.CA()) != read(h, h.path("ca.crt")) {
			h.Error("another CA is handed out")
		}
	})
}

// The other advice works: without both files there is a new CA.
func TestKeeper_own_newCA(t *testing.T) {
	bubble(t, func(h *house) {
		old := h.start().CA()
		write(h, h.path("ca.key"), "damaged")
		k := h.run()
		h.codes(health.CertificateInvalid)
		remove(h, h.path("ca.key"), h.path("ca.crt"))
		pass(0)
		h.codes()
		h.accepts(k, h.trusting(k.CA()), "gate")
		h.refuses(k, h.trusting(old), "gate")
		h.accepts(h.start(), h.trusting(k.CA()), "gate")
	})
}

// Without any good file there is still a certificate, and nothing is written.
func TestKeeper_own_allDamaged(t *testing.T) {
	h := newHouse(t)
	h.start()
	for name := range h.files() {
		write(t, h.path(name), "damaged "+name)
	}
	before := h.files()
	k := h.start()
	if got := k.Info(); got.Source != certificate.Passing || k.CA() != nil || got.CAFingerprint != "" {
		t.Errorf("%+v", got)
	}
	h.accepts(k, client{now: today}, "gate")
	h.codes(health.CertificateInvalid)
	if !maps.Equal(before, h.files()) {
		t.Error("something was written")
	}
}

// A certificate that can no longer be renewed is reported before its end, and replaced
// by one that reports less after it.
func TestKeeper_own_cannotRenew(t *testing.T) {
	bubble(t, func(h *house) {
		h.start()
		write(h, h.path("ca.key"), "damaged")
		k := h.run()
		h.set(today.Add(344*day+time.Hour), true)
		pass(0)
		h.codes(health.CertificateInvalid, health.CertificateExpiring)
		if k.Info().Source != certificate.Own {
			h.Errorf("%s", short(k.Info()))
		}
		h.set(today.Add(366*day), true)
		pass(0)
		replaced := k.Info()
		pass(time.Hour)
		if got := k.Info(); got.Fingerprint != replaced.Fingerprint {
			h.Errorf("%s, then %s", short(replaced), short(got))
		}
		if k.Info().Source != certificate.Passing {
			h.Errorf("%s", short(k.Info()))
		}
		h.codes(health.CertificateInvalid)
	})
}

// A CA under a wrong name, which parses well, is damaged all the same.
func TestKeeper_own_bentName(t *testing.T) {
	h := newHouse(t)
	ca := h.start().CA()
	der, _ := pem.Decode(ca)
	bent := block("CERTIFICATE", bytes.ReplaceAll(der.Bytes, []byte("North"), []byte("South")))
	if leaf(t, bent).Subject.CommonName != "Gatehouse South house (1a2b3c4d)" {
		t.Fatal("the name is not bent")
	}
	write(t, h.path("ca.crt"), bent)
	k := h.start()
	h.codes(health.CertificateInvalid)
	h.accepts(k, h.trusting(ca), "gate")
	if k.CA() != nil {
		t.Error("the bent CA is handed out")
	}
}

// A CA made again bears the identifier by which openssl finds it, however the lost one
// was given its own.
func TestKeeper_own_lostIdentifier(t *testing.T) {
	h := newHouse(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, h.path("ca.key"), block("PRIVATE KEY", text))
	old := orderFor(t, key, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.SubjectKeyId, c.ExtKeyUsage = true, true, []byte{1, 2, 3}, nil
	})
	write(t, h.path("ca.crt"), old)
	h.start()
	remove(t, h.path("ca.crt"))
	k := h.start()
	if made := leaf(t, string(k.CA())); !bytes.Equal(made.SubjectKeyId, []byte{1, 2, 3}) || made.Subject.String() != "CN=ordered" {
		t.Errorf("%x of %s", made.SubjectKeyId, made.Subject)
	}
	h.accepts(k, h.trusting([]byte(old)), "gate")
}

// A reload while the disk is dying: the CA in memory continues to sign, and the damage
// is reported as long as it lasts.
func TestKeeper_Reload_damaged(t *testing.T) {
	bubble(t, func(h *house) {
		k := h.run()
		ca, good := k.CA(), h.files()
		for name := range good {
			write(h, h.path(name), "damaged")
		}
		if err := k.Reload("", ""); err != nil {
			h.Error(err)
		}
		h.move("10.0.0.5")
		for range 3 {
			pass(0)
			h.codes(health.CertificateInvalid)
			h.accepts(k, h.trusting(ca), "gate", "10.0.0.5")
			if !bytes.Equal(k.CA(), ca) {
				h.Errorf("the CA handed out is %q", k.CA())
			}
		}
		for _, name := range []string{"ca.key", "ca.crt"} {
			write(h, h.path(name), good[name])
		}
		pass(0)
		h.codes()
		h.sound(k)
	})
}

// A reload repairs the server's files on disk.
func TestKeeper_Reload_mends(t *testing.T) {
	h := newHouse(t)
	k := h.start()
	good := h.files()
	for _, name := range []string{"server.key", "server.crt"} {
		write(t, h.path(name), "damaged")
	}
	if err := k.Reload("", ""); err != nil {
		t.Error(err)
	}
	h.codes()
	if !maps.Equal(good, h.files()) {
		t.Error("the files are not what they were")
	}
}

// What a power cut left with too wide rights gets the right ones.
func TestKeeper_own_remains(t *testing.T) {
	h := newHouse(t)
	write(t, h.path("ca.key.new"), strings.Repeat("x", 10_000))
	if err := os.Chmod(h.path("ca.key.new"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.sound(h.start())
	if info, err := os.Stat(h.path("ca.key")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A reload reads the files again: a restored CA is used, a damaged one does no
// harm to what is in use.
func TestKeeper_Reload_own(t *testing.T) {
	h := newHouse(t)
	other := newHouse(t)
	otherCA := other.start().CA()
	k := h.start()
	first := k.Info()
	good := h.files()
	for name := range good {
		write(t, h.path(name), "damaged")
	}
	reload := func() {
		t.Helper()
		if err := k.Reload("", ""); err != nil {
			t.Error(err)
		}
	}
	reload()
	if got := k.Info(); got.Fingerprint != first.Fingerprint {
		t.Errorf("%s, then %s", short(first), short(got))
	}
	h.codes(health.CertificateInvalid)
	for name, text := range other.files() {
		write(t, h.path(name), text)
	}
	reload()
	h.codes()
	h.accepts(k, h.trusting(otherCA), "gate")
	remove(t, h.path("ca.key"), h.path("ca.crt"), h.path("server.key"), h.path("server.crt"))
	reload()
	h.codes()
	h.refuses(k, h.trusting(otherCA), "gate")
	h.accepts(k, h.trusting([]byte(read(t, h.path("ca.crt")))), "gate")
}
