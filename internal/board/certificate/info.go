package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"strings"
	"time"
)

// Source says where the certificate comes from.
type Source string

// The sources.
const (
	Own     Source = "own"     // signed by the gateway's own CA
	Given   Source = "given"   // from the configured files
	Passing Source = "passing" // signed by nobody, for this run: nothing better can be had
)

// Info is what everybody may know of the certificate in use.
type Info struct {
	Source      Source
	Certificate string // path of its file
	Key         string // path of its key's file

	Subject   string // its own, such as "CN=gatehouse,O=Gatehouse"
	Issuer    string
	Names     []string
	Addresses []netip.Addr
	NotBefore time.Time
	NotAfter  time.Time
	// Fingerprint is the SHA-256 of the certificate, in capital hexadecimal with
	// colons, as browsers and openssl show it.
	Fingerprint string

	CASubject     string // of the gateway's own CA; empty where [Keeper.CA] is nil
	CAFingerprint string
}

// served is what is in use; it never changes.
type served struct {
	pair *tls.Certificate
	info Info
	ca   []byte // PEM; nil where nobody should trust a CA
}

func infoOf(source Source, leaf *x509.Certificate, certificate, key string) Info {
	return Info{
		Source: source, Certificate: certificate, Key: key,
		Subject: leaf.Subject.String(), Issuer: leaf.Issuer.String(),
		Names: leaf.DNSNames, Addresses: fromIPs(leaf.IPAddresses),
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, Fingerprint: fingerprint(leaf),
	}
}

// serve gives what is to be served of the given files.
func (g *given) serve() *served {
	return &served{pair: g.pair, info: infoOf(Given, g.pair.Leaf, g.certificate, g.key)}
}

// serve gives what is to be served of the gateway's own certificate.
func (o *own) serve() *served {
	if o.server.passing {
		return o.server.serve()
	}
	s := &served{pair: o.server.pair(), info: infoOf(Own, o.server.leaf, o.folder.file(fileServer), o.folder.file(fileServerKey))}
	// A CA that is not on disk may be another one tomorrow: nobody should install it.
	if o.authority.kept && o.authority.vouches(o.server.leaf) {
		s.ca = o.authority.pem()
		s.info.CASubject, s.info.CAFingerprint = o.authority.cert.Subject.String(), fingerprint(o.authority.cert)
	}
	return s
}

// serve gives what is to be served of a certificate that stands alone.
func (s server) serve() *served {
	return &served{pair: s.pair(), info: infoOf(Passing, s.leaf, "", "")}
}

func (s server) pair() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{s.leaf.Raw}, PrivateKey: s.key, Leaf: s.leaf}
}

func fingerprint(c *x509.Certificate) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i, octet := range sha256.Sum256(c.Raw) {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteByte(digits[octet>>4])
		b.WriteByte(digits[octet&15])
	}
	return b.String()
}
