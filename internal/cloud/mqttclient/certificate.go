package mqttclient

import (
	"crypto/tls"
	"crypto/x509"
)

// Certificate gives the certificate that the broker has shown and that was accepted;
// nil without TLS.
func (c *Conn) Certificate() *x509.Certificate {
	secure, ok := c.filter.Conn.(*tls.Conn)
	if !ok {
		return nil
	}
	return secure.ConnectionState().PeerCertificates[0]
}
