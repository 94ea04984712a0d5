package mqttclient_test

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"

	"gatehouse/internal/cloud/mqttclient"
)

// addressed is a connection that has ended, to an address.
type addressed struct {
	net.Conn
	address netip.AddrPort
}

func (p addressed) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(p.address) }

// Without TLS a broker is authenticated on this machine alone, whatever its name resolves to,
// and each address of the name is judged for itself. Where TLS fails there is no login.
func TestDial_connected(t *testing.T) {
	for url, want := range map[string][]bool{
		"tcp://localhost": {true, false, true, false, true, false}, "tls://broker.example": nil,
	} {
		cfg := config(url)
		cfg.Lookup = func(context.Context, string) ([]string, error) {
			return []string{"127.0.0.1", "192.0.2.1", "::1", "fd00::1", "::ffff:127.8.0.1", "::ffff:192.0.2.1"}, nil
		}
		cfg.Open = func(_ context.Context, _, address string) (net.Conn, error) {
			near, far := net.Pipe()
			return addressed{near, netip.MustParseAddrPort(address)}, far.Close()
		}
		var got []bool
		cfg.Connected = func(authenticated bool) { got = append(got, authenticated) }
		if _, err := mqttclient.Dial(t.Context(), cfg); err == nil || !slices.Equal(got, want) {
			t.Errorf("%s: authenticated %v, want %v; %v", url, got, want, err)
		}
	}
}
