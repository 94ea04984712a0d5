package certificate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// authority is the gateway's own CA.
type authority struct {
	key     crypto.Signer     // nil: it cannot sign
	cert    *x509.Certificate // nil only where key is nil too
	lenient *x509.Certificate // see [constrain]; nil: a former version made it, or it is damaged
	unsaved bool              // whether the certificates were made now, and are not on disk
}

// earliest and latest bound every right time: no gateway existed before, and none of
// today's runs after. A CA is valid from the earliest, whatever the clock shows.
func earliest() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
func latest() time.Time   { return time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC) }

// lifeOfCA is how many years a CA is valid after its creation.
const lifeOfCA = 10

// newKey makes a key that every client understands, also small ones.
func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// newAuthority creates a CA for the wanted names and addresses.
func newAuthority(w wanted, id site.GatewayID) (authority, error) {
	key, err := newKey()
	if err != nil {
		return authority{}, err
	}
	return certify(key, &x509.Certificate{Subject: subjectOfCA(w.name, id)}, w)
}

// pem returns what clients receive.
func (a authority) pem() []byte {
	text := encodeCertificate(a.cert)
	if a.lenient != nil {
		text = append(text, encodeCertificate(a.lenient)...)
	}
	return text
}

// subjectOfCA returns the name in a device's list of trusted CAs. It distinguishes a CA
// from those of other gateways; the key distinguishes it from those with the same
// subject.
func subjectOfCA(name string, id site.GatewayID) pkix.Name {
	short := " (" + clip(string(id), 8) + ")"
	return subject(clip(strings.TrimSpace(product+" "+name), maxCommonName-len(short)) + short)
}

func subject(name string) pkix.Name {
	return pkix.Name{Organization: []string{product}, CommonName: clip(name, maxCommonName)} //nolint:misspell // a field of the standard library
}

const (
	product       = "Gatehouse"
	maxCommonName = 64 // in characters (RFC 5280, A.1: ub-common-name)
)

// clip cuts a text to so many characters.
func clip(text string, most int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), most)])
}

// certify creates the certificates of a CA from its key and a template with the
// subject.
func certify(key crypto.Signer, template *x509.Certificate, w wanted) (authority, error) {
	made := earliest()
	if plausible(w.now) {
		made = w.now
	}
	template.NotBefore, template.NotAfter = earliest(), made.AddDate(lifeOfCA, 0, 0)
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	template.BasicConstraintsValid, template.IsCA, template.MaxPathLenZero = true, true, true
	constrain(template, w.dns)
	cert, err := sign(template, template, key, key)
	if err != nil {
		return authority{}, err
	}
	template.PermittedDNSDomainsCritical = false
	lenient, err := sign(template, template, key, key)
	return authority{key: key, cert: cert, lenient: lenient, unsaved: true}, err
}

// sign makes a certificate with a random serial number of 159 bits (RFC 5280,
// 4.1.2.2) for the key.
func sign(template, parent *x509.Certificate, key, by crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// vouches reports whether the CA has signed the certificate. It asks no clock.
func (a authority) vouches(leaf *x509.Certificate) bool {
	return a.cert != nil && bytes.Equal(leaf.RawIssuer, a.cert.RawSubject) && leaf.CheckSignatureFrom(a.cert) == nil
}

// errNoAuthority means that there is no CA in a folder, nor a part of one.
var errNoAuthority = errors.New("there is no CA")

// loadAuthority reads the CA from a folder. With an error other than
// [errNoAuthority] it returns what is left of it, and no key.
func loadAuthority(f folder, w wanted, id site.GatewayID) (authority, error) {
	key, keyErr := f.key(fileCAKey)
	cert, lenient, certErr := readAuthority(f)
	noCert := errors.Is(certErr, fs.ErrNotExist)
	if keyErr == nil && certErr == nil && !fits(key, cert) {
		keyErr = errors.New("it is not the key of " + fileCA)
	}
	switch {
	case errors.Is(keyErr, fs.ErrNotExist) && noCert:
		return authority{}, errNoAuthority
	case keyErr == nil && noCert:
		return restoreAuthority(f, key, w, id)
	case keyErr != nil:
		return authority{cert: cert, lenient: lenient}, damagedAuthority(f, fileCAKey, keyErr)
	case certErr != nil:
		return authority{}, damagedAuthority(f, fileCA, certErr)
	}
	return authority{key: key, cert: cert, lenient: lenient}, nil
}

// damagedAuthority is the error of a CA that cannot sign, because of one of its files. A
// file that only belongs to another user is good, and must never be removed.
func damagedAuthority(f folder, name string, err error) error {
	p := problem{
		code: invalid, kind: fault.Unavailable, cause: err,
		summary: "The gateway's own CA in " + f.path + " cannot be used: " + name + " is missing, damaged, or not to be read",
		advice: fmt.Sprintf("Restore the folder from a backup (gatehouse restore); or remove %s and %s: the gateway makes a new CA within a minute, which every app and station must be given then",
			f.file(fileCAKey), f.file(fileCA)),
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		p.advice = adviceOwner(f)
	case name == fileCA:
		p.advice = "Restore it from a backup or remove it: the gateway makes it again from its key, and clients that trust it still do"
	}
	return p
}

// adviceOwner returns how the gateway's user gets its files back.
func adviceOwner(f folder) string {
	return fmt.Sprintf("Give the files back to the gateway's user: chown -R --reference=%s %s; they are read again within a minute", filepath.Dir(f.path), f.path)
}

// readAuthority reads the certificate of the CA. It must be signed by itself, which
// shows damage: a CA under a wrong name would sign what nobody trusts.
func readAuthority(f folder) (cert, lenient *x509.Certificate, err error) {
	all, err := f.certificates(fileCA)
	if err != nil {
		return nil, nil, err
	}
	for _, one := range all {
		if err := one.CheckSignatureFrom(all[0]); err != nil {
			return nil, nil, fmt.Errorf("the certificate is not a CA's, or damaged: %w", err)
		}
	}
	if len(all) > 1 {
		lenient = all[1]
	}
	return all[0], lenient, nil
}

// restoreAuthority makes the lost certificate of a CA again from its key. With the
// subject and the key identifier of the server certificate, if there is one, it is the
// same CA to every client that trusts the lost one.
func restoreAuthority(f folder, key crypto.Signer, w wanted, id site.GatewayID) (authority, error) {
	template := &x509.Certificate{Subject: subjectOfCA(w.name, id)}
	if leaf, err := f.certificates(fileServer); err == nil && signedBy(leaf[0], key) {
		template.RawSubject, template.SubjectKeyId = leaf[0].RawIssuer, leaf[0].AuthorityKeyId
		w.dns = leaf[0].DNSNames // other names the lost one may not have been made for
	}
	a, err := certify(key, template, w)
	if err != nil {
		return authority{}, damagedAuthority(f, fileCAKey, err)
	}
	return a, nil
}

func signedBy(leaf *x509.Certificate, key crypto.Signer) bool {
	signer := &x509.Certificate{PublicKey: key.Public()}
	selfSigned := bytes.Equal(leaf.RawIssuer, leaf.RawSubject)
	return !selfSigned && signer.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) == nil
}
