package gateway

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// addressListener is an inherited socket of every address that serves only some:
// connections to another address are closed. systemd holds a port for every address, and the
// configuration may name fewer.
type addressListener struct {
	net.Listener
	only []netip.AddrPort // as they are configured; not empty
}

// join adds an address, if it has the same port. Until the listener closes, no other socket
// can be bound to that.
func (l *addressListener) join(address string) bool {
	wanted, err := netip.ParseAddrPort(address)
	if err != nil || wanted.Port() != l.only[0].Port() {
		return false
	}
	l.only = append(l.only, netip.AddrPortFrom(wanted.Addr().Unmap(), wanted.Port()))
	return true
}

// Accept implements [net.Listener].
func (l *addressListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if at, ok := conn.LocalAddr().(*net.TCPAddr); ok && l.serves(at.AddrPort().Addr().Unmap().WithZone("")) {
			return conn, nil
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // as if nobody listened there
		}
		_ = conn.Close()
	}
}

func (l *addressListener) serves(addr netip.Addr) bool {
	return slices.ContainsFunc(l.only, func(a netip.AddrPort) bool { return a.Addr() == addr })
}

// SyscallConn implements [syscall.Conn], where the socket does.
func (l *addressListener) SyscallConn() (syscall.RawConn, error) {
	if socket, ok := l.Listener.(syscall.Conn); ok {
		return socket.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Addr implements [net.Listener]: the widest of the configured addresses.
func (l *addressListener) Addr() net.Addr {
	at := slices.IndexFunc(l.only, func(a netip.AddrPort) bool { return !a.Addr().IsLoopback() })
	return net.TCPAddrFromAddrPort(l.only[max(at, 0)])
}
