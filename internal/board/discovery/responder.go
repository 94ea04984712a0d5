// Package discovery answers queries of the local network for the gateway's services
// (DNS-SD over multicast DNS, RFC 6762 and 6763) where no other responder of the machine
// does, such as avahi or systemd-resolved. It answers, and claims nothing: it does not probe
// for its name, does not defend it, and asks no cache to drop what others have answered.
//
// Its work per second is bounded, whatever arrives, and it keeps nothing of a packet.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

const (
	// turn is how long one socket is used. Then the name, the interfaces, and whether
	// another program has the port are looked up again.
	turn = 20 * time.Second
	// perSecond is how many packets are read. The kernel drops the others.
	perSecond = 50
	// pause is the shortest time between two multicast answers on a link (RFC 6762, 6). Each
	// of them has every record.
	pause = time.Second
	// longest is the longest packet that is read whole: what fits into a frame.
	longest = 1500
	port    = 5353
)

// group is where queries and their answers go (RFC 6762, 3).
func group() *net.UDPAddr { return &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: port} }

// link is a network that the machine is in.
type link struct {
	prefixes []netip.Prefix
	records  []dnsmessage.Resource
	answered time.Time // last, by multicast
}

// Service is what the gateway offers at a port.
type Service struct {
	Type string // such as "_https._tcp"
	Port uint16
	Text string // of its TXT record, such as "path=/"; may be empty
}

// Run answers for services of the machine name() + ".local" until ctx ends, in each turn in
// which it has a name and no other program uses the port.
func Run(ctx context.Context, services []Service, name func() string) error {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, turn)
		if name := name(); name != "" && len(services) > 0 {
			if conn, err := listen(limited, port); err == nil {
				serve(limited, conn, join(conn, name, services))
			}
		}
		<-limited.Done()
		cancel()
	}
	return nil
}

// listen binds a port, unless another program has it. One that starts later may share it: from
// the next turn on that alone answers.
func listen(ctx context.Context, port int) (*ipv4.PacketConn, error) {
	bound, err := new(net.ListenConfig).ListenPacket(ctx, "udp4", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, err
	}
	if raw, err := bound.(*net.UDPConn).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	}
	conn := ipv4.NewPacketConn(bound)
	err = errors.Join(
		conn.SetControlMessage(ipv4.FlagInterface, true),
		conn.SetMulticastLoopback(false), // no other responder of the machine has to hear of its names
		conn.SetMulticastTTL(255))        // RFC 6762, 11
	if err != nil {
		_ = conn.Close()
	}
	return conn, err
}

// join has conn receive the queries of every network that the machine is in, and returns
// these by the index of their interface.
func join(conn *ipv4.PacketConn, name string, services []Service) map[int]*link {
	const able, unfit = net.FlagUp | net.FlagMulticast, net.FlagLoopback | net.FlagPointToPoint
	links := make(map[int]*link)
	all, _ := net.Interfaces() // none: the next turn looks again
	for _, one := range all {
		addresses, err := one.Addrs()
		if one.Flags&(able|unfit) != able || err != nil || conn.JoinGroup(&one, group()) != nil {
			continue
		}
		var prefixes []netip.Prefix
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil {
				prefixes = append(prefixes, prefix)
			}
		}
		links[one.Index] = &link{prefixes: prefixes, records: records(name, services, prefixes)}
	}
	return links
}

// serve answers with conn, which it closes, until ctx ends.
func serve(ctx context.Context, conn *ipv4.PacketConn, links map[int]*link) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	packet, limit := make([]byte, longest), rate.NewLimiter(perSecond, perSecond)
	for limit.Wait(ctx) == nil {
		n, at, from, err := conn.ReadFrom(packet)
		if err != nil {
			return
		}
		sender, known := from.(*net.UDPAddr)
		if at == nil || !known || links[at.IfIndex] == nil {
			continue
		}
		if response, to := links[at.IfIndex].respond(packet[:n], sender); response != nil {
			_, _ = conn.WriteTo(response, &ipv4.ControlMessage{IfIndex: at.IfIndex}, to)
		}
	}
}

// respond returns the response to a packet, if there is one, and where it goes. What comes
// from another network is ignored (RFC 6762, 11).
func (l *link) respond(packet []byte, sender *net.UDPAddr) (response []byte, to net.Addr) {
	from := sender.AddrPort().Addr().Unmap()
	if !slices.ContainsFunc(l.prefixes, func(p netip.Prefix) bool { return p.Contains(from) }) {
		return nil, nil
	}
	if sender.Port != port { // a plain client (RFC 6762, 6.7)
		return answer(packet, l.records, true), sender
	}
	if time.Since(l.answered) < pause {
		return nil, nil
	}
	if response = answer(packet, l.records, false); response != nil {
		l.answered = time.Now()
	}
	return response, group()
}
