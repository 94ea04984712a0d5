package mqttclient

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// plan is a configuration that can be used, with what its files say now.
type plan struct {
	Config
	endpoint Endpoint
	tls      *tls.Config // nil without TLS
}

// Defaults.
const (
	perSecond  = 300
	burst      = 600
	maxPayload = 8 << 10
)

// prepare reads the files of the configuration. Package config has checked the rest.
func (cfg Config) prepare() (*plan, error) {
	p := &plan{Config: cfg}
	p.fill()
	var err error
	if p.endpoint, err = ParseURL(cfg.URL); err != nil {
		return nil, err
	}
	if err := p.readPassword(); err != nil {
		return nil, err
	}
	err = p.readTLS()
	return p, err
}

func (p *plan) fill() {
	if p.PerSecond == 0 {
		p.PerSecond, p.Burst = perSecond, burst
	}
	if p.MaxPayload == 0 {
		p.MaxPayload = maxPayload
	}
	if p.Now == nil {
		p.Now = time.Now
	}
}

// maxPassword is the longest password of MQTT, in bytes (MQTT 3.1.1, section 3.1.3.5).
const maxPassword = 1<<16 - 1

func (p *plan) readPassword() error {
	if len(p.Password) > maxPassword {
		return fmt.Errorf("the password has more than %d bytes", maxPassword)
	}
	if p.Password != "" || p.PasswordFile == "" {
		return nil
	}
	text, err := readFile(p.PasswordFile)
	if err != nil {
		return fmt.Errorf("reading password_file: %w", err)
	}
	line := strings.TrimRight(string(text), "\r\n")
	if line == "" || len(line) > maxPassword || strings.ContainsAny(line, "\r\n") {
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
		text, err := readFile(p.CA)
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

// maxFile bounds the files that are read, in bytes: a list of roots is 250 KB.
const maxFile = 1 << 20

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return text, err
}

// silence is how long a broker may say nothing: it answers at least the pings.
func (cfg Config) silence() time.Duration { return cfg.KeepAlive*3/2 + 10*time.Second }
