package limit

import (
	"net"
	"net/netip"
)

// networkBits is the prefix length of an IPv6 network: a host has at least that much
// for itself, and on a LAN all hosts share it.
const networkBits = 64

// Address returns the client address of a connection: the whole address with its zone
// (contract, section 1). Not valid where there is none.
func Address(remote net.Addr) netip.Addr {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// Network returns the network of a client address: of IPv6 the /64 with the address's
// zone, of IPv4 the address itself.
func Network(client netip.Addr) netip.Addr {
	if !client.Is6() || client.Is4In6() {
		return client.Unmap()
	}
	prefix, _ := client.Prefix(networkBits) // never fails for IPv6; drops the zone
	return prefix.Addr().WithZone(client.Zone())
}
