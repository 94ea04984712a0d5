package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"gatehouse/internal/fault"
)

// Check reports whether the two PEM files can be used, as [Keeper.Reload] would find
// them: an error of kind Invalid names the file, what is wrong with it, and what to do.
func Check(certificate, key string) error {
	_, err := given{certificate, key}.load()
	return err
}

// given are the files of a certificate that another authority issued.
type given struct{ certificate, key string }

// Stored returns the certificate that these files hold, or, where none are named, that
// the gateway keeps in the folder, whether it is still valid or not; nil if there is none
// that can be used. It changes nothing, and waits for the disk as long as that takes.
func Stored(path, certificate, key string) *tls.Certificate {
	if certificate != "" || key != "" {
		pair, _ := given{certificate, key}.load() // nil with an error
		return pair
	}
	if s := loadServer(folder{path: path}); s.leaf != nil {
		return s.pair()
	}
	return nil
}

// load reads the files.
func (g given) load() (*tls.Certificate, error) {
	if g.certificate == "" || g.key == "" {
		return nil, bad("A certificate and its key belong together", "Set both, certificate and key, in [tls], or neither", nil)
	}
	chain, err := readFile(g.certificate)
	if err != nil {
		return nil, unreadable("certificate", g.certificate, err)
	}
	key, err := readFile(g.key)
	if err != nil {
		return nil, unreadable("key", g.key, err)
	}
	return g.parse(chain, key)
}

func (g given) parse(chain, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(chain, key)
	for _, der := range pair.Certificate {
		if _, damaged := x509.ParseCertificate(der); damaged != nil {
			err = damaged
		}
	}
	if err != nil { // whose text holds nothing of the key
		return nil, bad(fmt.Sprintf("The certificate in %s and the key in %s cannot be used (%s)", g.certificate, g.key, strings.TrimPrefix(err.Error(), "tls: ")),
			"Use PEM files that belong together: the gateway's own certificate first, and its key without a passphrase", err)
	}
	if !forServers(pair.Leaf) {
		return nil, bad("The certificate in "+g.certificate+" is not meant for a server", "Order one with the purpose serverAuth", nil)
	}
	return &pair, nil
}

// forServers reports whether clients may accept the certificate as a server's (RFC
// 5280, 4.2.1.12); without any purpose in it, it is for all.
func forServers(leaf *x509.Certificate) bool {
	return len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) == 0 ||
		slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny)
}

func unreadable(what, path string, err error) error {
	cause := err
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		cause = e.Err
	}
	return bad("The "+what+" file "+path+" cannot be read ("+cause.Error()+")", "Check "+what+" in [tls], and whether the gateway's user may read it", err)
}

func bad(summary, advice string, err error) error {
	return problem{code: invalid, kind: fault.Invalid, summary: summary, advice: advice, cause: err}
}
