package gateway

import (
	"net"
	"net/netip"
)

// addressListener is an inherited socket of every address that serves only one:
// connections to another address are closed. systemd holds a port for every address, and the
// configuration may name one.
type addressListener struct {
	net.Listener
	only netip.AddrPort
}

// Accept implements [net.Listener].
func (l *addressListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if at, ok := conn.LocalAddr().(*net.TCPAddr); ok && at.AddrPort().Addr().Unmap().WithZone("") == l.only.Addr() {
			return conn, nil
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // as if nobody listened there
		}
		_ = conn.Close()
	}
}

// Addr implements [net.Listener].
func (l *addressListener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.only) }
