package doctor

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	day = 24 * time.Hour

	// givenLate and ownLate are how long before its end someone should have renewed a
	// certificate: the gateway renews its own when a third of a year is left.
	givenLate = 21 * day
	ownLate   = 60 * day

	// authorityLate is how long before its end the gateway's authority should be
	// replaced: it must be installed in every app and station.
	authorityLate = 365 * day

	// credentialFolder is where root puts what "credential:NAME" means.
	credentialFolder = "/etc/gatehouse/credentials" //nolint:gosec // a folder, not what is in it
)

// pair is a certificate with its key, as they stand on the disk.
type pair struct {
	own         bool // the gateway made it
	chain, key  string
	certificate *x509.Certificate
}

// checkCertificate looks at the files that the TLS listeners show.
func checkCertificate(ctx context.Context, p *patient, s *sheet) {
	if p.broken == nil && len(p.settings.HTTP.TLSListen)+len(p.settings.MQTT.TLSListen) == 0 {
		s.fine("None is needed: no port speaks TLS")
		return
	}
	c := p.pair()
	text, err := p.read(ctx, c.chain)
	switch {
	case err == nil:
	case p.broken != nil && errors.Is(err, fs.ErrNotExist):
		s.skip("the configuration, which says whether one is needed, cannot be used", "")
		return
	default:
		missing(p, s, c, "certificate", c.chain, err)
		return
	}
	if c.certificate, err = firstCertificate(text); err != nil {
		s.fatal("The certificate cannot be used", c.advice(p), c.chain+": "+err.Error())
		return
	}
	evidence := []string{
		c.chain + " is valid until " + moment(c.certificate.NotAfter),
		"its SHA-256 fingerprint is " + fingerprint(c.certificate),
		listed("it is for", names(c.certificate)),
	}
	checkValidity(p, s, c, evidence)
	checkKey(ctx, p, s, c, text)
	if p.broken == nil {
		checkNames(ctx, p, s, c, evidence)
	}
	if c.own {
		evidence = append(evidence, checkAuthority(ctx, p, s, c)...)
	}
	s.fine(fmt.Sprintf("It is valid for another %s", span(c.certificate.NotAfter.Sub(p.Machine.Now()))), evidence...)
}

// pair names the files that are meant.
func (p *patient) pair() pair {
	if p.settings.TLS.Certificate == "" {
		return pair{own: true, chain: p.data("tls/server.crt"), key: p.data("tls/server.key")}
	}
	return pair{chain: credential(p.settings.TLS.Certificate), key: credential(p.settings.TLS.Key)}
}

// credential gives the file in which root keeps a credential.
func credential(path string) string {
	if name, is := strings.CutPrefix(path, "credential:"); is {
		return filepath.Join(credentialFolder, name)
	}
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

// advice says how to get another certificate.
func (c pair) advice(p *patient) string {
	if c.own {
		return p.told("restart") + ", which makes another"
	}
	return "put a valid one there, then " + p.told("reload")
}

// missing says of a file that cannot be read what that means.
func missing(p *patient, s *sheet, c pair, what, path string, err error) {
	absent := errors.Is(err, fs.ErrNotExist)
	switch {
	case absent && c.own && !p.runs():
		s.notice("There is no "+what+" yet: the gateway makes one when it starts", p.told("start"), "none at "+path)
	case absent && c.own:
		s.warn("The gateway's own "+what+" is not on the disk: after a restart apps and stations see another one", p.told("restart"), "none at "+path)
	case absent:
		s.fatal("The "+what+" that the configuration names is not there", "put it there, or change tls."+what, "none at "+path)
	default:
		s.denied("the "+what, err)
	}
}

// firstCertificate reads the first certificate of a PEM text.
func firstCertificate(text []byte) (*x509.Certificate, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errors.New("it holds no certificate in PEM")
}

func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}

func names(c *x509.Certificate) []string {
	all := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}

func checkValidity(p *patient, s *sheet, c pair, evidence []string) {
	now := p.Machine.Now()
	left := c.certificate.NotAfter.Sub(now)
	late := givenLate
	if c.own {
		late = ownLate
	}
	clock := "the system's time is " + moment(now)
	switch {
	case left <= 0 && c.own && !p.runs():
		s.notice("The certificate has expired: the gateway makes another when it starts", p.told("start"), append(evidence, clock)...)
	case left <= 0:
		s.fatal("The certificate has expired", c.advice(p), append(evidence, clock)...)
	case now.Before(c.certificate.NotBefore):
		s.fatal("The certificate is not valid yet: it, or the clock of this machine, is wrong", "check the date with timedatectl; "+c.advice(p),
			append(evidence, "it is valid from "+moment(c.certificate.NotBefore), clock)...)
	case left < late && c.own:
		s.warn(fmt.Sprintf("The gateway has not renewed its certificate, which expires in %s", span(left)), logCommand, append(evidence, clock)...)
	case left < late:
		s.warn(fmt.Sprintf("The certificate expires in %s", span(left)), "renew it, then "+p.told("reload"), append(evidence, clock)...)
	}
}

// checkKey sees that the key is there, fits, and is for the gateway alone.
func checkKey(ctx context.Context, p *patient, s *sheet, c pair, chain []byte) {
	key, err := p.read(ctx, c.key)
	if err != nil {
		missing(p, s, c, "key", c.key, err)
		return
	}
	if _, err := tls.X509KeyPair(chain, key); err != nil {
		s.fatal("The key does not belong to the certificate, or cannot be used", c.advice(p), c.key, why(err))
	}
	if info, err := p.Machine.Stat(c.key); err == nil && info.Mode().Perm()&0o007 != 0 {
		s.warn("Everybody on this machine may read the key of the certificate", "chmod o= "+c.key, c.key+" has mode "+info.Mode().Perm().String())
	}
}

// why words an error of crypto/tls, which never holds anything of the key.
func why(err error) string { return strings.TrimPrefix(err.Error(), "tls: ") }

// checkNames checks that the certificate has the names and addresses that apps use.
func checkNames(ctx context.Context, p *patient, s *sheet, c pair, evidence []string) {
	name := p.settings.HostName()
	var absent []string
	for _, wanted := range []string{name, name + ".local"} {
		if c.certificate.VerifyHostname(wanted) != nil {
			absent = append(absent, wanted)
		}
	}
	switch ca := ownAuthority(ctx, p, c); {
	case len(absent) == 0:
	case ca != nil && constrained(ca) && !slices.Contains(absent, name+".local"):
		s.notice("The certificate leaves out a name of this gateway: its authority was made for another and may not vouch for it",
			"have apps use "+name+".local; or "+renewAuthority(p), append(evidence, listed("missing", absent))...)
	case c.own:
		s.warn("The certificate does not have the name of this gateway", p.told("restart"), append(evidence, listed("missing", absent))...)
	default:
		s.notice("The certificate does not have the name of this gateway: apps must use one that it has",
			"set name in the configuration, or get a certificate for the name", append(evidence, listed("missing", absent))...)
	}
	if c.own {
		checkAddresses(ctx, p, s, c)
	}
}

// checkAddresses reports the addresses that the gateway's own certificate leaves out,
// because its authority vouches only for those of local networks.
func checkAddresses(ctx context.Context, p *patient, s *sheet, c pair) {
	ca := ownAuthority(ctx, p, c)
	if !p.runs() || ca == nil || !constrained(ca) {
		return
	}
	var absent []string
	for _, a := range p.status.Addresses {
		within := func(n *net.IPNet) bool { return n.Contains(a.AsSlice()) }
		if !slices.ContainsFunc(ca.PermittedIPRanges, within) {
			absent = append(absent, a.String())
		}
	}
	if len(absent) > 0 {
		s.notice("The certificate leaves out public addresses of this machine: apps that call the gateway by one of them refuse it",
			"have apps use "+p.settings.HostName()+".local or a local address; or name certificate files in [tls]", listed("left out", absent))
	}
}

// ownAuthority returns the certificate of the gateway's own authority; nil where there is
// none that can be read, or c is not the gateway's own.
func ownAuthority(ctx context.Context, p *patient, c pair) *x509.Certificate {
	if !c.own {
		return nil
	}
	text, err := p.read(ctx, p.data("tls/ca.crt"))
	if err != nil {
		return nil
	}
	ca, err := firstCertificate(text)
	if err != nil {
		return nil
	}
	return ca
}

// constrained reports whether an authority may vouch only for local names and
// addresses.
func constrained(ca *x509.Certificate) bool {
	return ca.PermittedDNSDomainsCritical && len(ca.PermittedDNSDomains) > 0 && len(ca.PermittedIPRanges) > 0
}

// renewAuthority returns the steps that replace the gateway's authority.
func renewAuthority(p *patient) string {
	return fmt.Sprintf("rm %s %s; %s; then install the new ca.crt in every app and station", p.data("tls/ca.key"), p.data("tls/ca.crt"), p.told("restart"))
}

// checkAuthority sees that the gateway's own authority vouches for the certificate,
// and gives what people compare when they trust it.
func checkAuthority(ctx context.Context, p *patient, s *sheet, c pair) []string {
	path := p.data("tls/ca.crt")
	text, err := p.read(ctx, path)
	if err != nil {
		missing(p, s, c, "authority", path, err)
		return nil
	}
	ca, err := firstCertificate(text)
	if err == nil {
		err = c.certificate.CheckSignatureFrom(ca)
	}
	if err != nil {
		s.warn("The gateway's authority does not vouch for its certificate", p.told("restart"), path+": "+err.Error())
		return nil
	}
	facts := []string{"the authority's SHA-256 fingerprint is " + fingerprint(ca)}
	switch left := ca.NotAfter.Sub(p.Machine.Now()); {
	case left < authorityLate:
		s.warn(fmt.Sprintf("The gateway's authority expires in %s; apps and stations refuse the gateway then", span(left)),
			renewAuthority(p), "valid until "+moment(ca.NotAfter))
	case !constrained(ca):
		s.notice("The gateway's authority may vouch for any site: a thief of its key, from a backup too, can pose as one to the phones that trust it",
			renewAuthority(p), "made by a former version, valid until "+moment(ca.NotAfter))
	}
	return facts
}
