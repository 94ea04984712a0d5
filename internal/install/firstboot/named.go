package firstboot

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gatehouse/internal/setup/tomlfile"
)

// fileProblems reports configured files that are missing or cannot be used.
func (b *boot) fileProblems() []tomlfile.Problem {
	c := b.plan.config
	return slices.Concat(
		b.pairProblems("tls", c.TLS.Certificate, c.TLS.Key),
		b.pairProblems("cloud", c.Cloud.Certificate, c.Cloud.Key),
		b.authorityProblems(c.Cloud.CA),
		b.passwordProblems(c.Cloud.PasswordFile),
	)
}

// pairProblems looks at a certificate and its key, which belong together.
func (b *boot) pairProblems(section, certificate, key string) (problems []tomlfile.Problem) {
	var paths []string
	for _, f := range []struct{ name, text string }{{"certificate", certificate}, {"key", key}} {
		path, wrong := b.file(f.text)
		if wrong != "" {
			problems = append(problems, b.placed(section+"."+f.name, wrong))
		}
		paths = append(paths, path)
	}
	if len(problems) > 0 || certificate == "" {
		return problems
	}
	if _, err := tls.LoadX509KeyPair(paths[0], paths[1]); err != nil {
		return []tomlfile.Problem{b.placed(section+".certificate", fmt.Sprintf("the certificate %s and the key %s cannot be used: %s", paths[0], paths[1], err))}
	}
	return nil
}

func (b *boot) authorityProblems(text string) []tomlfile.Problem {
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
	return []tomlfile.Problem{b.placed("cloud.ca", wrong)}
}

// passwordProblems: beside the site file, a password file looks like those of accounts,
// but the gateway will need it later on.
func (b *boot) passwordProblems(text string) []tomlfile.Problem {
	_, wrong := b.file(text)
	if wrong == "" {
		return nil
	}
	return []tomlfile.Problem{b.placed("cloud.password_file", wrong+"; or write the password itself, as password: it is wiped in this file")}
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
