package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Source is where the certificate comes from.
type Source string

// The sources.
const (
	Own     Source = "own"     // signed by the gateway's own CA
	Given   Source = "given"   // from the configured files
	Passing Source = "passing" // self-signed, for this run: nothing better is available
)

// Info is public knowledge of the certificate in use.
type Info struct {
	Source    Source
	Names     []string
	Addresses []netip.Addr
	NotBefore time.Time
	NotAfter  time.Time
	// Fingerprint is the SHA-256 of the certificate, in capital hexadecimal with
	// colons, as browsers and openssl show it.
	Fingerprint string

	CAFingerprint string // of the gateway's own CA; empty where [Keeper.CA] is nil
}

// served is what is in use; it never changes.
type served struct {
	pair *tls.Certificate
	info Info
	ca   []byte // PEM; nil where no CA should be trusted
}

func infoOf(source Source, leaf *x509.Certificate) Info {
	return Info{
		Source: source, Names: leaf.DNSNames, Addresses: fromIPs(leaf.IPAddresses),
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, Fingerprint: fingerprint(leaf),
	}
}

// serve returns what is served of the gateway's own certificate.
func (o *own) serve() *served {
	s := o.server.serve()
	// A CA that is not on disk may be replaced at the next start: no client should install it.
	if !o.authority.unsaved && o.authority.vouches(o.server.leaf) {
		s.ca = o.authority.pem()
		s.info.CAFingerprint = fingerprint(o.authority.cert)
	}
	return s
}

// serve returns what is served without a CA.
func (s server) serve() *served {
	source := Own
	if s.passing {
		source = Passing
	}
	return &served{pair: s.pair(), info: infoOf(source, s.leaf)}
}

func (s server) pair() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{s.leaf.Raw}, PrivateKey: s.key, Leaf: s.leaf}
}

func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}
