package mqttclient

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// plan is a configuration that can be used, with the present content of its files.
type plan struct {
	Config
	endpoint Endpoint
	tls      *tls.Config // nil without TLS
}

// prepare reads the files of the configuration. Package config has checked the rest.
func (cfg Config) prepare() (*plan, error) {
	p := &plan{Config: cfg}
	p.PerSecond, p.Burst, p.MaxPayload = cmp.Or(p.PerSecond, 300), cmp.Or(p.Burst, 600), cmp.Or(p.MaxPayload, 8<<10)
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Lookup == nil {
		p.Lookup = net.DefaultResolver.LookupHost
	}
	if p.Open == nil {
		p.Open = new(net.Dialer).DialContext
	}
	var err error
	if p.endpoint, err = ParseURL(cfg.URL); err != nil {
		return nil, err
	}
	if err := p.findFiles(); err != nil {
		return nil, err
	}
	if err := p.readPassword(); err != nil {
		return nil, err
	}
	err = p.readTLS()
	return p, err
}

func (p *plan) findFiles() (err error) {
	if p.Find == nil {
		return nil
	}
	names := []string{"password_file", "ca", "certificate", "key"} // in order: an attempt fails as the one before did
	for i, path := range []*string{&p.PasswordFile, &p.CA, &p.Certificate, &p.Key} {
		if *path, err = p.Find(*path); err != nil {
			return fmt.Errorf("reading %s: %w", names[i], err)
		}
	}
	return nil
}

func (p *plan) readPassword() error {
	if p.Password != "" || p.PasswordFile == "" {
		return nil
	}
	text, err := os.ReadFile(p.PasswordFile)
	if err != nil {
		return fmt.Errorf("reading password_file: %w", err)
	}
	line := strings.TrimRight(string(text), "\r\n")
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return fmt.Errorf("the password_file %s does not hold one line", p.PasswordFile)
	}
	p.Password = site.Secret(line)
	return nil
}

// readTLS reads the files of certificates.
func (p *plan) readTLS() error {
	if !p.endpoint.TLS {
		return nil
	}
	p.tls = &tls.Config{ServerName: p.endpoint.Host, MinVersion: tls.VersionTLS12, Time: p.Now}
	if p.CA != "" {
		text, err := os.ReadFile(p.CA)
		if err != nil {
			return fmt.Errorf("reading ca: %w", err)
		}
		p.tls.RootCAs = x509.NewCertPool()
		if !p.tls.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("the ca %s holds no certificate in PEM", p.CA)
		}
	}
	if p.Certificate == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return fmt.Errorf("reading certificate %s and key %s: %w", p.Certificate, p.Key, err)
	}
	p.tls.Certificates = []tls.Certificate{pair}
	return nil
}
