package update

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"gatehouse/internal/fault"
	"gatehouse/internal/web/adminapi"
)

// Serves returns nil if the HTTPS listener of a gateway on this machine answers and shows
// the certificate that the gateway says it has. A gateway without HTTPS needs neither.
func Serves(ctx context.Context, s adminapi.Status) error {
	for _, l := range s.Listeners {
		if l.Name != "https" || s.Certificate == nil {
			continue
		}
		dialer := &tls.Dialer{Config: &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // the certificate is compared as such
			VerifyConnection: func(c tls.ConnectionState) error {
				return compareCertificate(c.PeerCertificates, s.Certificate.Fingerprint)
			},
		}}
		conn, err := dialer.DialContext(ctx, "tcp", local(l.Address))
		if err != nil {
			return fault.Wrap(fault.Unavailable, "HTTPS does not answer with the gateway's certificate: "+err.Error(), err)
		}
		_ = conn.Close()
	}
	return nil
}

// local returns the address at which this machine itself reaches a listener.
func local(address string) string {
	at, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || !at.Addr().IsUnspecified():
		return address
	case at.Addr().Is4():
		return net.JoinHostPort("127.0.0.1", fmt.Sprint(at.Port()))
	default:
		return net.JoinHostPort("localhost", fmt.Sprint(at.Port()))
	}
}

// compareCertificate compares a certificate with a fingerprint, "AB:CD:…".
func compareCertificate(shown []*x509.Certificate, fingerprint string) error {
	want, err := hex.DecodeString(strings.ReplaceAll(fingerprint, ":", ""))
	if err != nil {
		return fmt.Errorf("reading the fingerprint of the certificate: %w", err)
	}
	if len(shown) == 0 {
		return errors.New("it shows no certificate")
	}
	if sum := sha256.Sum256(shown[0].Raw); !bytes.Equal(sum[:], want) {
		return errors.New("it shows another certificate")
	}
	return nil
}
