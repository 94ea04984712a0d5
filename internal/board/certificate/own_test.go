package certificate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/health"
)

func TestKeeper_own(t *testing.T) {
	h := newHouse(t)
	h.move("10.0.0.7", "192.168.1.20", "2001:db8::20", "fd00::20")
	k := h.start()
	h.codes()
	c := h.trusting(k.CA())
	h.accepts(k, c, "gate", "GATE", "gate.local", "localhost", "127.0.0.1", "::1", "192.168.1.20", "fd00::20", "10.0.0.7")
	h.refuses(k, c, "gate.example.test", "north", "192.168.1.21", "2001:db8::20")

	for name, mode := range map[string]os.FileMode{"ca.key": 0o600, "ca.crt": 0o644, "server.key": 0o600, "server.crt": 0o644, ".": 0o700 | os.ModeDir} {
		info, err := os.Stat(h.path(name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if names := slices.Sorted(maps.Keys(h.files())); len(names) != 4 {
		t.Errorf("files %v", names)
	}
	ca, server := leaf(t, string(k.CA())), leaf(t, read(t, h.path("server.crt")))
	if string(k.CA()) != read(t, h.path("ca.crt")) {
		t.Error("what is handed out is not what is kept")
	}
	if !ca.IsCA || ca.MaxPathLen != 0 || !ca.MaxPathLenZero || !ca.NotAfter.Equal(today.AddDate(10, 0, 0)) || ca.NotBefore.After(today.Add(-300*day)) || ca.SerialNumber.BitLen() < 100 {
		t.Errorf("CA %+v", ca)
	}
	if got := ca.Subject.CommonName; got != "Gatehouse North house (1a2b3c4d)" {
		t.Errorf("the CA is called %q", got)
	}
	if life := server.NotAfter.Sub(server.NotBefore); life != 397*day || server.IsCA || server.SerialNumber.BitLen() < 100 || server.NotBefore.After(today.Add(-30*day)) {
		t.Errorf("life %v of %+v", life, server)
	}
	if !slices.Equal(server.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) || server.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("uses %v %v", server.ExtKeyUsage, server.KeyUsage)
	}
	info := k.Info()
	if want := strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(server.Raw)), " ", ":"); info.Fingerprint != want {
		t.Errorf("fingerprint %s, want %s", info.Fingerprint, want)
	}
	if want := strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(ca.Raw)), " ", ":"); info.CAFingerprint != want {
		t.Errorf("CA %s", info.CAFingerprint)
	}
	if info.Source != certificate.Own || !info.NotAfter.Equal(server.NotAfter) ||
		!info.NotBefore.Equal(server.NotBefore) || server.Subject.String() != "CN=North house,O=Gatehouse" || server.Issuer.String() != ca.Subject.String() || len(info.Addresses) != 5 {
		t.Errorf("info %+v", info)
	}
}

// A second start finds everything and writes nothing.
func TestKeeper_own_secondStart(t *testing.T) {
	h := newHouse(t)
	first := h.start().Info()
	before := h.files()
	k, err := certificate.NewBroken(h.cfg, func(step string) error { t.Errorf("the second start writes: %s", step); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if second := k.Info(); short(first) != short(second) || first.CAFingerprint != second.CAFingerprint || !maps.Equal(before, h.files()) {
		t.Errorf("%s, then %s", short(first), short(second))
	}
	h.codes()
}

// Two gateways of one name have CAs that people can tell apart.
func TestKeeper_own_twoGateways(t *testing.T) {
	one, other := newHouse(t), newHouse(t)
	other.cfg.GatewayID = "99999999-0000-4000-8000-000000000000"
	a, b := one.start(), other.start()
	if x, y := leaf(t, string(a.CA())).Subject.String(), leaf(t, string(b.CA())).Subject.String(); x == y || a.Info().CAFingerprint == b.Info().CAFingerprint {
		t.Errorf("%q and %q", x, y)
	}
	one.refuses(b, one.trusting(a.CA()), "gate")
}

func TestKeeper_own_names(t *testing.T) {
	for _, test := range []struct {
		host, gateway string
		want          string
	}{
		{"gate", "", "gate gate.local localhost"},
		{"gate", "gate", "gate gate.local localhost"},
		{"Gate.Example.test.", "", "gate.example.test gate gate.local localhost"},
		{"gate.local", "", "gate.local gate localhost"},
		{"gate", "north-1", "gate gate.local north-1 north-1.local localhost"},
		{"gate", "Nordtür", "gate gate.local localhost"},
		{"localhost", "localhost.localdomain", "localhost.localdomain localhost"},
		{"", "", "localhost"},
		{"192.168.1.20", "::1", "localhost"},
		{"-gate", "gate-", "localhost"},
		{"a..b", "*.example.test", "localhost"},
		{strings.Repeat("a", 64), strings.Repeat("a.", 130) + "a", "localhost"},
		{"gate\x00.example.test", "gate\n", "localhost"},
	} {
		h := newHouse(t)
		h.cfg.Hostname, h.cfg.Name = test.host, test.gateway
		k := h.start()
		got := k.Info().Names
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q, %q: %q, want %q", test.host, test.gateway, got, test.want)
		}
		h.accepts(k, h.trusting(k.CA()), got...)
		if cn := leaf(t, string(k.CA())).Subject.CommonName; len([]rune(cn)) > 64 || !strings.HasSuffix(cn, " (1a2b3c4d)") {
			t.Errorf("%q, %q: the CA is called %q", test.host, test.gateway, cn)
		}
	}
}

func TestKeeper_own_manyAddresses(t *testing.T) {
	h := newHouse(t)
	for i := range 1000 {
		h.addresses = append(h.addresses, netip.AddrFrom4([4]byte{172, 17, byte(i / 250), byte(i%250 + 1)}))
	}
	k := h.start()
	if n := len(k.Info().Addresses); n != 32 {
		t.Errorf("%d addresses", n)
	}
	h.accepts(k, h.trusting(k.CA()), "127.0.0.1", "::1")
	before := h.files()
	h.start()
	if !maps.Equal(before, h.files()) {
		t.Error("too many addresses lead to a new certificate each time")
	}
	h.move("10.0.0.1", "10.0.0.2")
	k = h.start()
	h.accepts(k, h.trusting(k.CA()), "127.0.0.1", "10.0.0.1", "10.0.0.2")
	if n := len(k.Info().Addresses); n != 32 {
		t.Errorf("%d addresses, with old ones", n)
	}
}

// The certificate is renewed for its age, by Run, over the same key and by the same CA.
func TestKeeper_own_age(t *testing.T) {
	bubble(t, func(h *house) {
		k := h.run()
		first, before := k.Info(), h.files()
		h.set(today.Add(232*day), true)
		pass(0)
		if got := k.Info(); got.Fingerprint != first.Fingerprint {
			h.Errorf("renewed too early: %s", short(got))
		}
		h.set(today.Add(234*day), true)
		pass(0)
		got := k.Info()
		if got.Fingerprint == first.Fingerprint || got.CAFingerprint != first.CAFingerprint || got.NotAfter.Before(today.Add(590*day)) {
			h.Errorf("%s, then %s", short(first), short(got))
		}
		after := h.files()
		if before["server.crt"] == after["server.crt"] {
			h.Error("the new one is not kept")
		}
		delete(before, "server.crt")
		delete(after, "server.crt")
		if !maps.Equal(before, after) {
			h.Error("more was written than server.crt")
		}
		h.accepts(k, h.trusting(k.CA()), "gate")
		h.codes()
	})
}

// A gateway that was switched off until its certificate had ended starts with a new one.
func TestKeeper_own_ended(t *testing.T) {
	h := newHouse(t)
	ca := h.start().CA()
	h.set(today.Add(1000*day), true)
	h.accepts(h.start(), h.trusting(ca), "gate")
	h.codes()
}

func TestKeeper_own_newName(t *testing.T) {
	h := newHouse(t)
	ca := h.start().CA()
	h.cfg.Hostname = "porch"
	k := h.start()
	h.accepts(k, h.trusting(ca), "porch.local")
	h.refuses(k, h.trusting(ca), "porch") // the CA was made for another name
	h.codes()
}

// A new address is taken up soon, and an old one that comes back costs no write.
func TestKeeper_own_newAddress(t *testing.T) {
	bubble(t, func(h *house) {
		h.move()
		k := h.run()
		c := h.trusting(k.CA())
		h.refuses(k, c, "192.168.1.30")
		h.move("192.168.1.30")
		pass(0)
		h.accepts(k, c, "192.168.1.30", "127.0.0.1")
		h.move("192.168.1.31")
		pass(0)
		h.accepts(k, c, "192.168.1.30", "192.168.1.31")
		before := h.files()
		for _, address := range []string{"192.168.1.30", "192.168.1.31", "192.168.1.30"} {
			h.move(address)
			pass(0)
			h.move()
			pass(0)
		}
		if !maps.Equal(before, h.files()) {
			h.Error("an address that comes and goes leads to writes")
		}
	})
}

// However often the address changes, few certificates are written.
func TestKeeper_own_restlessAddress(t *testing.T) {
	bubble(t, func(h *house) {
		k := h.run()
		seen := map[string]bool{}
		for i := range 12 * 60 {
			h.move(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String())
			time.Sleep(time.Minute) // of the bubble
			seen[k.Info().Fingerprint] = true
		}
		if n := len(seen); n < 8 || n > 16 {
			h.Errorf("%d certificates in twelve hours", n)
		}
		h.accepts(k, h.trusting(k.CA()), "gate")
		h.move("10.9.9.9")
		pass(4 * time.Hour)
		h.accepts(k, h.trusting(k.CA()), "10.9.9.9")
	})
}

// The name that another machine's has forced on this one is added, but not every one of
// many.
func TestKeeper_own_publishedName(t *testing.T) {
	bubble(t, func(h *house) {
		var name atomic.Value
		name.Store("")
		h.cfg.Published = func() string { return name.Load().(string) }
		k := h.run()
		c := h.trusting(k.CA())
		before := h.files()
		name.Store("gate")
		pass(0)
		if !maps.Equal(before, h.files()) {
			h.Error("its own name leads to a new certificate")
		}
		h.refuses(k, c, "gate2.local")
		name.Store("gate2")
		pass(0)
		h.accepts(k, c, "gate2.local", "gate.local", "gate")
		seen := map[string]bool{}
		for i := range 12 * 60 {
			name.Store(fmt.Sprint("gate", i))
			time.Sleep(time.Minute) // of the bubble
			seen[k.Info().Fingerprint] = true
		}
		if n := len(seen); n < 8 || n > 16 {
			h.Errorf("%d certificates in twelve hours", n)
		}
		h.accepts(k, c, "gate.local")
	})
}

// A CA that ends soon, or that a former version created for every name, has to be replaced
// by hand, and is reported; it serves on.
func TestKeeper_own_dated(t *testing.T) {
	h := newHouse(t)
	h.start()
	h.set(today.Add(9*365*day+10*day), true)
	h.start()
	h.dated("ends on", "install the new ca.crt")

	h = newHouse(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, h.path("ca.key"), block("PRIVATE KEY", der))
	write(t, h.path("ca.crt"), orderFor(t, key, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.NotAfter = true, true, x509.KeyUsageCertSign, today.Add(3000*day)
		c.DNSNames, c.ExtKeyUsage = nil, nil
	}))
	k := h.start()
	h.accepts(k, h.trusting([]byte(read(t, h.path("ca.crt")))), "gate")
	h.dated("vouch for any site", "rm "+h.path("ca.key")+" "+h.path("ca.crt"))

	// Beside a given certificate it is not in use.
	h.configure(order(t, nil))
	if err := k.Reload(h.cfg.Certificate, h.cfg.Key); err != nil {
		t.Fatal(err)
	}
	h.codes()
}

func (h *house) dated(words ...string) {
	h.Helper()
	h.reports(words...)
	for _, c := range h.conditions.Conditions() {
		if c.Code != health.CertificateAuthority || c.Severity != health.Notice {
			h.Errorf("condition %+v", c)
		}
	}
}
