package firstboot

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gatehouse/internal/setup/tomlfile"
)

// fileProblems reports configured files that are missing, and certificates that cannot be
// used with their keys.
func (b *boot) fileProblems() (problems []tomlfile.Problem) {
	c := b.plan.config
	for _, f := range []struct{ key, text, hint string }{
		{"tls.certificate", c.TLS.Certificate, ""},
		{"tls.key", c.TLS.Key, ""},
		{"cloud.certificate", c.Cloud.Certificate, ""},
		{"cloud.key", c.Cloud.Key, ""},
		{"cloud.ca", c.Cloud.CA, ""},
		// Beside the site file it looks like a password file of an account, but the gateway
		// will need it later on.
		{"cloud.password_file", c.Cloud.PasswordFile, "; or write the password itself, as password: it is wiped in this file"},
	} {
		if err := b.checkFile(f.text); err != nil {
			problems = append(problems, b.placed(f.key, err.Error()+f.hint))
		}
	}
	if len(problems) > 0 {
		return problems
	}
	for _, pair := range []struct{ section, certificate, key string }{
		{"tls", c.TLS.Certificate, c.TLS.Key}, {"cloud", c.Cloud.Certificate, c.Cloud.Key},
	} {
		if pair.certificate == "" {
			continue
		}
		certificate, key := b.pathOf(pair.certificate), b.pathOf(pair.key)
		if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
			problems = append(problems, b.placed(pair.section+".certificate", fmt.Sprintf("the certificate %s and the key %s cannot be used: %s", certificate, key, err)))
		}
	}
	return problems
}

// checkFile checks that the file behind a setting is there. No setting is right.
func (b *boot) checkFile(text string) error {
	path := b.pathOf(text)
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not a whole path: begin it with /", text)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the file %s cannot be read: %s", path, cause(err))
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	return nil
}

// pathOf returns the path of the file behind a setting. The unit of the gateway finds
// credentials beside the configuration.
func (b *boot) pathOf(text string) string {
	if name, is := strings.CutPrefix(text, "credential:"); is {
		return filepath.Join(b.folder, "credentials", filepath.Base(name))
	}
	return text
}
