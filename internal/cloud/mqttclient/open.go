package mqttclient

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// open opens the connection below MQTT: stream is raw, or TLS on it. It names the step
// that failed. Where there are others to be tried, TCP has no longer than leastShare.
func (p *plan) open(ctx context.Context, address string, others bool) (raw, stream net.Conn, step Step, err error) {
	open := p.Open
	if open == nil {
		open = new(net.Dialer).DialContext
	}
	reaching := ctx
	if others {
		var cancel context.CancelFunc
		reaching, cancel = context.WithTimeout(ctx, leastShare)
		defer cancel()
	}
	raw, err = open(reaching, "tcp", address)
	if err != nil {
		if _, name := errors.AsType[*net.DNSError](err); name {
			return nil, nil, StepResolve, err
		}
		return nil, nil, StepConnect, err
	}
	if p.tls == nil {
		return raw, raw, StepConnect, nil
	}
	secure := tls.Client(raw, p.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, nil, StepTLS, err
	}
	return raw, secure, StepTLS, nil
}
