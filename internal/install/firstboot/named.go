package firstboot

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/config"
)

// fileProblems looks whether the files that the configuration names are there, and can
// be what they are named for.
func (b *boot) fileProblems(sources config.Sources) []Problem {
	c := b.plan.config
	return slices.Concat(
		b.pairProblems(sources, "tls", c.TLS.Certificate, c.TLS.Key),
		b.pairProblems(sources, "cloud", c.Cloud.Certificate, c.Cloud.Key),
		b.authorityProblems(sources, c.Cloud.CA),
		b.passwordProblems(sources, c.Cloud.PasswordFile),
	)
}

// pairProblems looks at a certificate and its key, which belong together.
func (b *boot) pairProblems(sources config.Sources, section, certificate, key string) (problems []Problem) {
	var paths []string
	for _, f := range []struct{ name, text string }{{"certificate", certificate}, {"key", key}} {
		path, wrong := b.file(f.text)
		if wrong != "" {
			problems = append(problems, placed(sources, section+"."+f.name, wrong))
		}
		paths = append(paths, path)
	}
	if len(problems) > 0 || certificate == "" {
		return problems
	}
	if _, err := tls.LoadX509KeyPair(paths[0], paths[1]); err != nil {
		return []Problem{placed(sources, section+".certificate", fmt.Sprintf("the certificate %s and the key %s cannot be used: %s", paths[0], paths[1], err))}
	}
	return nil
}

func (b *boot) authorityProblems(sources config.Sources, text string) []Problem {
	path, wrong := b.file(text)
	if wrong == "" && text != "" {
		data, err := os.ReadFile(path) //nolint:gosec // the configuration names it
		if err != nil || !x509.NewCertPool().AppendCertsFromPEM(data) {
			wrong = "the file " + path + " holds no certificate: it must be a PEM file"
		}
	}
	if wrong == "" {
		return nil
	}
	return []Problem{placed(sources, "cloud.ca", wrong)}
}

// passwordProblems: beside the site file, a password file looks like those of accounts,
// but the gateway will need it later on.
func (b *boot) passwordProblems(sources config.Sources, text string) []Problem {
	_, wrong := b.file(text)
	if wrong == "" {
		return nil
	}
	return []Problem{placed(sources, "cloud.password_file", wrong+"; or write the password itself, as password: it is wiped in this file")}
}

// file gives the file behind a setting, where the unit finds a credential; wrong says
// what is wrong with it. No setting is right.
func (b *boot) file(text string) (path, wrong string) {
	switch name, is := strings.CutPrefix(text, "credential:"); {
	case text == "":
		return "", ""
	case is:
		path = filepath.Join(b.folder, "credentials", filepath.Base(name))
	case !filepath.IsAbs(text):
		return text, fmt.Sprintf("%q is not a whole path: begin it with /", text)
	default:
		path = text
	}
	if info, err := os.Stat(path); err != nil {
		return path, fmt.Sprintf("the file %s cannot be read: %s", path, cause(err))
	} else if !info.Mode().IsRegular() {
		return path, path + " is not a file"
	}
	return path, ""
}
