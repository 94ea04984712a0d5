package discovery

import (
	"context"
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
)

// Listen is how Run binds its port.
var Listen = listen

// Link is one network.
type Link = link

// NewLink returns a network in which the machine has an address.
func NewLink(name string, services []Service, address netip.Prefix) *Link {
	all := []netip.Prefix{address}
	return &link{prefixes: all, records: records(name, services, all)}
}

// Respond returns what is sent for a packet, and where.
func (l *Link) Respond(packet []byte, sender *net.UDPAddr) ([]byte, net.Addr) {
	return l.respond(packet, sender)
}

// ServeOn answers with conn on the link with that index, until ctx ends.
func ServeOn(ctx context.Context, conn *ipv4.PacketConn, index int, l *Link) {
	serve(ctx, conn, map[int]*link{index: l})
}
