package certificate

import (
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// The names and addresses that a CA of the gateway may vouch for, beside the names that
// are configured when it is made: those that mean something on a local network alone.
// RFC 6762 (local), 6761 (localhost), 8375 (home.arpa), ICANN's reservation of 2024
// (internal); RFC 1918, 6598, 3927, 1122 for IPv4; RFC 4193, 4291 for IPv6.
func localDomains() []string { return []string{"local", "localhost", "home.arpa", "internal"} }

func localNetworks() []string {
	return []string{
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8",
		"fc00::/7", "fe80::/10", "::1/128",
	}
}

// constrain restricts the certificate of a CA to local names and addresses, to the
// given names and those below them, and to servers: a thief of its key can pose as no
// other site (RFC 5280, 4.2.1.10 and 4.2.1.12).
//
// The constraints are critical. mbedTLS 2 and 3, the library of most stations, know no
// name constraints and cannot read a certificate in which they are critical. So ca.crt
// holds a second certificate of the same CA in which they are not, which mbedTLS
// accepts; every client that knows constraints applies them in both.
func constrain(ca *x509.Certificate, names []string) {
	ca.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	ca.PermittedDNSDomainsCritical = true
	ca.PermittedDNSDomains = localDomains()
	for _, name := range names {
		if !permitsName(ca, name) {
			ca.PermittedDNSDomains = append(ca.PermittedDNSDomains, name)
		}
	}
	for _, text := range localNetworks() {
		_, network, _ := net.ParseCIDR(text) // they are right
		ca.PermittedIPRanges = append(ca.PermittedIPRanges, network)
	}
}

// permitsName reports whether a CA may vouch for a name; one without constraints may for
// any.
func permitsName(ca *x509.Certificate, name string) bool {
	return len(ca.PermittedDNSDomains) == 0 || slices.ContainsFunc(ca.PermittedDNSDomains, func(domain string) bool {
		below, within := strings.CutSuffix(name, domain)
		return within && (below == "" || strings.HasSuffix(below, "."))
	})
}

// permitsAddress reports whether a CA may vouch for an address.
func permitsAddress(ca *x509.Certificate, a netip.Addr) bool {
	return len(ca.PermittedIPRanges) == 0 || slices.ContainsFunc(ca.PermittedIPRanges, func(n *net.IPNet) bool {
		return n.Contains(a.AsSlice())
	})
}

// permits reports whether the CA may vouch for all names and addresses of a certificate.
func (a authority) permits(leaf *x509.Certificate) bool {
	kept := a.within(wanted{dns: leaf.DNSNames, ips: fromIPs(leaf.IPAddresses)})
	return len(kept.dns) == len(leaf.DNSNames) && len(kept.ips) == len(leaf.IPAddresses)
}

// within removes from what is wanted the names and addresses that the CA may not vouch
// for: with one of them, clients would refuse the whole certificate.
func (a authority) within(w wanted) wanted {
	if a.key != nil {
		foreign := func(name string) bool { return !permitsName(a.cert, name) }
		w.dns, w.found = slices.DeleteFunc(slices.Clone(w.dns), foreign), slices.DeleteFunc(slices.Clone(w.found), foreign)
		w.ips = slices.DeleteFunc(slices.Clone(w.ips), func(ip netip.Addr) bool { return !permitsAddress(a.cert, ip) })
	}
	return w
}
