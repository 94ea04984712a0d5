package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/board/certificate"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
)

const ordered = "gate.example.test"

func TestKeeper_given(t *testing.T) {
	h := newHouse(t)
	first := order(t, nil)
	h.configure(pair{first.cert + order(t, nil).cert, first.key}) // with a chain
	k := h.start()
	h.codes()
	h.accepts(k, h.trusting([]byte(first.cert)), ordered)
	_, outside, err := h.trusting([]byte(first.cert)).connect(k.TLS(), ordered)
	if err != nil || len(outside.ConnectionState().PeerCertificates) != 2 {
		t.Errorf("the chain is not sent: %v", err)
	}
	info := k.Info()
	if info.Source != certificate.Given || !slices.Equal(info.Names, []string{ordered}) || info.CAFingerprint != "" || k.CA() != nil {
		t.Errorf("%+v", info)
	}
	if _, err := os.Stat(h.cfg.Folder); err == nil {
		t.Error("a CA was made that is not needed")
	}
}

// Changed files are read while connections continue.
func TestKeeper_given_changed(t *testing.T) {
	bubble(t, func(h *house) {
		first, second := order(h, nil), order(h, nil)
		h.configure(first)
		k := h.run()
		inside, outside, err := h.trusting([]byte(first.cert)).connect(k.TLS(), ordered)
		if err != nil {
			h.Fatal(err)
		}
		info, err := os.Stat(h.cfg.Certificate)
		if err != nil {
			h.Fatal(err)
		}
		h.configure(second)
		for _, path := range []string{h.cfg.Certificate, h.cfg.Key} { // as copying with the times does
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				h.Fatal(err)
			}
		}
		pass(0)
		h.accepts(k, h.trusting([]byte(second.cert)), ordered)
		h.refuses(k, h.trusting([]byte(first.cert)), ordered)
		exchange(h, inside, outside)
		h.codes()
	})
}

// exchange sends a word over a connection, both ways.
func exchange(t testing.TB, inside, outside *tls.Conn) {
	t.Helper()
	for _, ends := range [][2]*tls.Conn{{inside, outside}, {outside, inside}} {
		go func() { _, _ = io.WriteString(ends[0], "word") }()
		got := make([]byte, 4)
		if _, err := io.ReadFull(ends[1], got); err != nil || string(got) != "word" {
			t.Errorf("the open connection carries %q, %v", got, err)
		}
	}
}

// Files that turn bad leave the old certificate in use, and are reported; the next good
// ones end it.
func TestKeeper_given_turnsBad(t *testing.T) {
	bubble(t, func(h *house) {
		first, second := order(h, nil), order(h, nil)
		h.configure(first)
		k := h.run()
		for name, bad := range map[string]pair{
			"new certificate, old key": {second.cert, first.key},
			"cut certificate":          {second.cert[:100], second.key},
			"cut key":                  {second.cert, second.key[:100]},
			"empty":                    {"", ""},
		} {
			h.configure(bad)
			pass(time.Hour)
			h.accepts(k, h.trusting([]byte(first.cert)), ordered)
			h.codes(health.CertificateInvalid)
			h.reports("given.")
			if err := k.Reload(h.cfg.Certificate, h.cfg.Key); !fault.Is(err, fault.Invalid) {
				h.Errorf("%s: the reload returns %v", name, err)
			}
			h.accepts(k, h.trusting([]byte(first.cert)), ordered)
		}
		remove(h, h.cfg.Key)
		pass(0)
		h.reports("given.key cannot be read (no such file")
		h.configure(first) // as it was
		pass(0)
		h.codes()
		h.accepts(k, h.trusting([]byte(first.cert)), ordered)
		h.configure(second)
		pass(0)
		h.codes()
		h.accepts(k, h.trusting([]byte(second.cert)), ordered)
		if n := strings.Count(h.log.String(), "level=WARN"); n < 3 || n > 10 {
			h.Errorf("%d warnings in the log", n)
		}
	})
}

// Bad files at the start: the gateway serves, and takes them up once they are good.
func TestKeeper_given_badAtStart(t *testing.T) {
	bubble(t, func(h *house) {
		good := order(h, nil)
		h.configure(pair{"", good.key})
		k := h.run()
		h.codes(health.CertificateInvalid)
		if k.Info().Source != certificate.Passing || k.CA() != nil {
			h.Errorf("%+v", k.Info())
		}
		h.accepts(k, client{now: today}, ordered)
		if _, err := os.Stat(h.cfg.Folder); err == nil {
			h.Error("a CA was made that is not needed")
		}
		h.configure(good)
		pass(0)
		h.codes()
		h.accepts(k, h.trusting([]byte(good.cert)), ordered)
	})
}

func TestKeeper_given_expiring(t *testing.T) {
	bubble(t, func(h *house) {
		h.configure(order(h, nil)) // for 90 days
		k := h.run()
		h.set(today.Add(68*day), true)
		pass(0)
		h.codes()
		h.set(today.Add(69*day+time.Hour), true)
		pass(0)
		h.codes(health.CertificateExpiring)
		h.reports(h.cfg.Certificate+" ends on 2027-03-01", h.cfg.Key)
		h.set(today.Add(91*day), true)
		pass(0)
		h.codes(health.CertificateExpiring)
		h.reports("has ended on 2027-03-01")
		h.configure(order(h, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = today.Add(92*day), today.Add(200*day) }))
		pass(0)
		h.reports("not valid before 2027-03-03")
		h.set(today.Add(93*day), true)
		pass(0)
		h.codes()
		if k.Info().Source != certificate.Given {
			h.Errorf("%+v", k.Info())
		}
	})
}

// A reload changes between given files and the gateway's own certificate.
func TestKeeper_Reload(t *testing.T) {
	h := newHouse(t)
	k := h.start()
	own := k.CA()
	first, second := order(t, nil), order(t, nil)
	h.configure(first)
	if err := k.Reload(h.cfg.Certificate, h.cfg.Key+"x"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a key that does not exist: %v", err)
	}
	h.accepts(k, h.trusting(own), "gate")
	for _, p := range []pair{first, second} {
		h.configure(p)
		if err := k.Reload(h.cfg.Certificate, h.cfg.Key); err != nil {
			t.Error(err)
		}
		h.accepts(k, h.trusting([]byte(p.cert)), ordered)
		if k.CA() != nil {
			t.Error("the own CA is handed out beside a given certificate")
		}
	}
	if err := k.Reload("", ""); err != nil {
		t.Error(err)
	}
	h.accepts(k, h.trusting(own), "gate")
	h.codes()
}

func TestCheck(t *testing.T) {
	good, other := order(t, nil), order(t, nil)
	client := order(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	const both = "The certificate in C and the key in K cannot be used ("
	for _, test := range []struct {
		name string
		pair pair
		want string // "" where it is good; C and K are the files
	}{
		{"good", good, ""},
		{"with other text around", pair{"my certificate\n" + good.cert + "\nthe end", "my key\n" + good.key}, ""},
		{"for everything", order(t, func(c *x509.Certificate) { c.ExtKeyUsage = nil }), ""},
		{"of openssl req -x509", order(t, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }), ""},
		{"ended", order(t, func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(1) }), ""},
		{"empty certificate", pair{"", good.key}, both + "failed to find any PEM data in certificate input): use"},
		{"binary certificate", pair{string(leaf(t, good.cert).Raw), good.key}, both + "failed to find any PEM data in certificate input): use"},
		{"exchanged", pair{good.key, good.cert}, both + "failed to find certificate PEM data in certificate input, but did find a private key"},
		{"bent certificate", pair{strings.Replace(good.cert, "\nM", "\nA", 1), good.key}, both + "x509: malformed certificate"},
		{"damaged chain", pair{good.cert + strings.Replace(other.cert, "\nM", "\nA", 1), good.key}, both + "x509: malformed certificate"},
		{"empty key", pair{good.cert, ""}, both + "failed to find any PEM data in key input"},
		{"certificate as key", pair{good.cert, good.cert}, both + "found a certificate rather than a key"},
		{"bent key", pair{good.cert, strings.Replace(good.key, "\nM", "\nA", 1)}, both + "failed to parse private key"},
		{"passphrase", pair{good.cert, block("ENCRYPTED PRIVATE KEY", []byte("no key"))}, both + "failed to parse private key): use PEM files that belong together: the gateway's own certificate first, and its key without a passphrase"},
		{"another's key", pair{good.cert, other.key}, both + "private key does not match public key"},
		{"wrong order", pair{other.cert + good.cert, good.key}, both + "private key does not match public key"},
		{"for clients", client, "The certificate in C is not meant for a server: order"},
		{"endless", pair{strings.Repeat("x", 2<<20), good.key}, "The certificate file C cannot be read ("},
	} {
		h := newHouse(t)
		h.configure(test.pair)
		err := certificate.Check(h.cfg.Certificate, h.cfg.Key)
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		want := strings.ReplaceAll(strings.ReplaceAll(test.want, " C", " "+h.cfg.Certificate), " K", " "+h.cfg.Key)
		if got := fault.Sentence(err); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %v %q, want %q", test.name, fault.KindOf(err), got, want)
		}
	}
}

func TestCheck_files(t *testing.T) {
	h := newHouse(t)
	h.configure(order(t, nil))
	cert, key := h.cfg.Certificate, h.cfg.Key
	for _, test := range []struct{ cert, key, want string }{
		{cert + "x", key, "The certificate file " + cert + "x cannot be read (no such file or directory): check certificate in [tls]"},
		{cert, key + "x", "The key file " + key + "x cannot be read (no such file or directory): check key in [tls]"},
		{"/", key, "The certificate file / cannot be read ("},
		{cert, "/dev/zero", "The key file /dev/zero cannot be read ("},
		{cert, "", "A certificate and its key belong together: set both"},
		{"", key, "A certificate and its key belong together: set both"},
	} {
		err := certificate.Check(test.cert, test.key)
		if got := fault.Sentence(err); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(got, test.want) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// A key that root wrote for root alone.
func TestCheck_noPermission(t *testing.T) {
	h := newHouse(t)
	h.configure(order(t, nil))
	for path, mode := range map[string]os.FileMode{h.cfg.Certificate: 0o644, h.cfg.Key: 0, filepath.Dir(filepath.Dir(h.cfg.Key)): 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its other user with it
		if _, err := unix.SetfsuidRetUid(65534); err != nil {
			t.Error(err)
		}
		failed <- certificate.Check(h.cfg.Certificate, h.cfg.Key)
	}()
	err := <-failed
	want := "The key file " + h.cfg.Key + " cannot be read (permission denied): check key in [tls], and whether the gateway's user may read it"
	if got := fault.Sentence(err); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
