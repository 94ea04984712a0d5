package certificate

import (
	"crypto"
	"crypto/x509"
	"net/netip"
	"time"
)

const (
	day = 24 * time.Hour

	// before and ahead are how long a certificate is valid before and after it was
	// made, 397 days in all; see the package doc.
	before = 32 * day
	ahead  = 365 * day

	// beforeUntrusted and aheadUntrusted are the same while the clock is untrusted:
	// together below the 825 days that Apple's devices accept at most.
	beforeUntrusted = 60 * day
	aheadUntrusted  = 764 * day

	// longest is the life that no certificate of a trusted clock has.
	longest = before + ahead + day

	// late is when a certificate is renewed by an untrusted clock, which may be
	// ahead: not a day sooner than needed.
	late = 30 * day
)

// plausible reports whether an untrusted clock may be right.
func plausible(now time.Time) bool {
	return !now.Before(earliest()) && now.Before(latest())
}

// validity returns the validity of a certificate created now. That of an untrusted
// clock covers all times that it may be.
func (w wanted) validity() (from, to time.Time) {
	from, to = w.earliest.Add(-beforeUntrusted), w.earliest.Add(aheadUntrusted)
	switch {
	case w.trusted:
		return w.now.Add(-before), w.now.Add(ahead)
	case plausible(w.now) && to.Sub(w.now) > 2*late:
		return from, to
	default:
		return earliest(), latest()
	}
}

// wanted is what a server certificate should be, now.
type wanted struct {
	now      time.Time
	trusted  bool      // that time
	earliest time.Time // what it may be at least: now, or the system's time before it
	sure     bool      // whether the system or the clock vouches for earliest
	name     string
	dns      []string
	found    []string // further names, under which the network finds the machine
	ips      []netip.Addr
}

// server is the server certificate with its key.
type server struct {
	key     crypto.Signer     // nil: there is none
	leaf    *x509.Certificate // nil: there is none
	unsaved bool              // whether they were made now, and are not on disk
	passing bool              // self-signed, for this run
}

// loadServer reads the key and the certificate, as far as they can be used.
func loadServer(f folder) server {
	key, err := f.key(fileServerKey)
	if err != nil {
		return server{}
	}
	leaf, err := f.certificates(fileServer)
	if err != nil || !fits(key, leaf[0]) {
		return server{key: key}
	}
	return server{key: key, leaf: leaf[0]}
}

// stale reports whether a new certificate is needed.
func (s server) stale(a authority, w wanted) bool {
	switch {
	case s.leaf == nil:
		return true
	case !s.replaceable(a):
		return w.trusted && w.now.After(s.leaf.NotAfter)
	}
	return a.key != nil && !(a.vouches(s.leaf) && a.permits(s.leaf)) ||
		w.trusted && s.leaf.NotAfter.Sub(s.leaf.NotBefore) > longest || // made by an untrusted clock
		w.sure && s.leaf.NotBefore.After(w.earliest) ||
		s.aged(a, w) || !holds(s.leaf.DNSNames, w.dns)
}

// moved reports whether the machine has an address that the certificate has not, or the
// network finds it by another name.
func (s server) moved(a authority, w wanted) bool {
	return s.replaceable(a) && !(holds(fromIPs(s.leaf.IPAddresses), w.ips) && holds(s.leaf.DNSNames, w.found))
}

// replaceable reports whether a certificate can be made that anyone trusts more.
func (s server) replaceable(a authority) bool { return a.key != nil || s.passing }

// aged reports whether a third of the life is left, or less, by a clock that may be
// right, and another life would be longer.
func (s server) aged(a authority, w wanted) bool {
	left := s.leaf.NotAfter.Sub(w.now)
	due := s.leaf.NotAfter.Sub(s.leaf.NotBefore) / 3
	if !w.trusted {
		due = late
	}
	end := latest()
	if a.cert != nil {
		end = a.cert.NotAfter
	}
	return plausible(w.now) && left <= due && s.leaf.NotAfter.Before(end)
}

// renew makes a certificate over the key, and a key where there is none. Without a CA
// it is signed by itself.
func (s server) renew(a authority, w wanted, ips []netip.Addr) (server, error) {
	if s.key == nil {
		key, err := newKey()
		if err != nil {
			return server{}, err
		}
		s.key = key
	}
	template := &x509.Certificate{
		Subject:     subject(w.name),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    append(w.dns[:len(w.dns):len(w.dns)], w.found...), IPAddresses: toIPs(ips), BasicConstraintsValid: true,
	}
	template.NotBefore, template.NotAfter = w.validity()
	parent, by := template, s.key
	if a.key != nil {
		parent, by = a.cert, a.key
		if template.NotAfter.After(a.cert.NotAfter) {
			template.NotAfter = a.cert.NotAfter
		}
	}
	leaf, err := sign(template, parent, s.key, by)
	return server{key: s.key, leaf: leaf, unsaved: true, passing: a.key == nil}, err
}
