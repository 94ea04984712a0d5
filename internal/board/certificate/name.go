package certificate

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// maxAddresses bounds the addresses in a certificate, which every handshake carries.
const maxAddresses = 32

// dnsNames returns the names under which clients reach the gateway: the host's, the
// gateway's where it can be a host name, both with ".local" (RFC 6762), and localhost.
func dnsNames(host, gateway string) []string {
	var all []string
	add := func(name string) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	for _, name := range []string{host, gateway} {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if !isHostName(name) || name == "localhost" {
			continue
		}
		add(name)
		if label, _, _ := strings.Cut(name, "."); label != "localhost" {
			add(label)
			add(label + ".local")
		}
	}
	add("localhost")
	return all
}

// hostName is a name that a certificate can hold, in lower case (RFC 1123, 2.1; the
// underscore occurs).
var hostName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

func isHostName(name string) bool {
	_, notAddress := netip.ParseAddr(name)
	return len(name) <= 240 && notAddress != nil && hostName.MatchString(name) // room for ".local" below the 253 of RFC 1035
}

// addresses returns those that a certificate should hold: loopback, and those at which others
// reach the machine, at most [maxAddresses].
func addresses(found []netip.Addr) []netip.Addr {
	return join([]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, found)
}

// join adds old addresses to the present ones, as far as there is room.
func join(present, old []netip.Addr) []netip.Addr {
	all := slices.Clone(present)
	for _, a := range old {
		if len(all) < maxAddresses && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// holds reports whether every one of few is among many.
func holds[T comparable](many, few []T) bool {
	return !slices.ContainsFunc(few, func(one T) bool { return !slices.Contains(many, one) })
}

// toIPs and fromIPs change between the addresses of net and of net/netip.
func toIPs(all []netip.Addr) []net.IP {
	out := make([]net.IP, 0, len(all))
	for _, a := range all {
		out = append(out, a.AsSlice())
	}
	return out
}

func fromIPs(all []net.IP) []netip.Addr {
	out := make([]netip.Addr, 0, len(all))
	for _, ip := range all {
		if a, ok := netip.AddrFromSlice(ip); ok {
			out = append(out, a.Unmap())
		}
	}
	return out
}
