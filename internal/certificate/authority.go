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
	keyKept bool              // whether the key, and the certificate, are on disk
	kept    bool
}

// The life of a CA: the same whatever the clock says. Its subject tells it from
// other gateways' and its key from those with the same subject.
func bornCA() time.Time  { return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }
func endOfCA() time.Time { return time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC) }

// newKey makes a key that every client understands, also small ones.
func newKey() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// newAuthority makes a CA.
func newAuthority(name string, id site.GatewayID) (authority, error) {
	key, err := newKey()
	if err != nil {
		return authority{}, err
	}
	cert, err := certify(key, &x509.Certificate{Subject: subjectOfCA(name, id)})
	return authority{key: key, cert: cert}, err
}

// subjectOfCA is what people see in the list of CAs that they trust.
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

// certify makes the certificate of a CA from its key and a template with the subject.
func certify(key crypto.Signer, template *x509.Certificate) (*x509.Certificate, error) {
	template.NotBefore, template.NotAfter = bornCA(), endOfCA()
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	template.BasicConstraintsValid, template.IsCA, template.MaxPathLenZero = true, true, true
	return sign(template, template, key, key)
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

// errNoAuthority says that there is no CA in a folder, nor a part of one.
var errNoAuthority = errors.New("there is no CA")

// loadAuthority reads the CA from a folder. With an error other than
// [errNoAuthority] it gives what is left of it, and no key.
func loadAuthority(f folder, name string, id site.GatewayID) (authority, error) {
	key, keyErr := readKey(f, fileCAKey)
	cert, certErr := readAuthority(f)
	noKey, noCert := errors.Is(keyErr, fs.ErrNotExist), errors.Is(certErr, fs.ErrNotExist)
	switch {
	case noKey && noCert:
		return authority{}, errNoAuthority
	case keyErr == nil && noCert:
		return restoreAuthority(f, key, name, id)
	case noKey:
		return authority{cert: cert, kept: certErr == nil}, damagedAuthority(f, fileCAKey+" is missing", adviceKey(f, nil), keyErr)
	case keyErr != nil:
		return authority{cert: cert, kept: certErr == nil}, damagedAuthority(f, fileCAKey+" cannot be read", adviceKey(f, keyErr), keyErr)
	case certErr != nil:
		return authority{}, damagedAuthority(f, fileCA+" cannot be read", adviceCertificate(f, certErr), certErr)
	case !fits(key, cert):
		return authority{cert: cert, kept: true}, damagedAuthority(f, fileCA+" and "+fileCAKey+" do not belong together", adviceKey(f, nil), nil)
	}
	return authority{key: key, cert: cert, keyKept: true, kept: true}, nil
}

// damagedAuthority is the error of a CA that cannot sign.
func damagedAuthority(f folder, what, advice string, err error) error {
	return problem{
		code: invalid, kind: fault.Unavailable,
		summary: "The gateway's own CA in " + f.path + " cannot be used: " + what,
		advice:  advice, cause: err,
	}
}

// adviceKey says what to do about a key that err kept from being read. One that is only
// not ours must never be removed: it is good.
func adviceKey(f folder, err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return adviceOwner(f)
	}
	return fmt.Sprintf("Restore the folder from a backup (gatehouse restore); or remove %s and %s: the gateway makes a new CA within a minute, which every app and station has to be given then",
		f.file(fileCAKey), f.file(fileCA))
}

func adviceCertificate(f folder, err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return adviceOwner(f)
	}
	return "Restore it from a backup or remove it: the gateway makes it again from its key, and who trusts it goes on"
}

// adviceOwner says how the gateway's user gets its files back.
func adviceOwner(f folder) string {
	return fmt.Sprintf("Give the files back to the gateway's user: chown -R --reference=%s %s; they are taken up within a minute", filepath.Dir(f.path), f.path)
}

func readKey(f folder, name string) (crypto.Signer, error) {
	text, err := f.read(name)
	if err != nil {
		return nil, err
	}
	return parseKey(text)
}

func readCertificate(f folder, name string) (*x509.Certificate, error) {
	text, err := f.read(name)
	if err != nil {
		return nil, err
	}
	all, err := parseCertificates(text)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// readAuthority reads the certificate of the CA. It must be signed by itself, which
// shows damage: a CA under a wrong name would sign what nobody trusts.
func readAuthority(f folder) (*x509.Certificate, error) {
	cert, err := readCertificate(f, fileCA)
	if err != nil {
		return nil, err
	}
	if err := cert.CheckSignatureFrom(cert); err != nil {
		return nil, fmt.Errorf("the certificate is not a CA's, or damaged: %w", err)
	}
	return cert, nil
}

// restoreAuthority makes the lost certificate of a CA again from its key: with the
// subject and the key's name that stand in the server certificate, where there is one,
// it is the same CA to everybody who trusts the lost one.
func restoreAuthority(f folder, key crypto.Signer, name string, id site.GatewayID) (authority, error) {
	template := &x509.Certificate{Subject: subjectOfCA(name, id)}
	if leaf, err := readCertificate(f, fileServer); err == nil && signedBy(leaf, key) {
		template.RawSubject, template.SubjectKeyId = leaf.RawIssuer, leaf.AuthorityKeyId
	}
	cert, err := certify(key, template)
	if err != nil {
		return authority{}, damagedAuthority(f, fileCAKey+" cannot sign", adviceKey(f, nil), err)
	}
	return authority{key: key, cert: cert, keyKept: true}, nil
}

func signedBy(leaf *x509.Certificate, key crypto.Signer) bool {
	signer := &x509.Certificate{PublicKey: key.Public()}
	selfSigned := bytes.Equal(leaf.RawIssuer, leaf.RawSubject)
	return !selfSigned && signer.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) == nil
}
