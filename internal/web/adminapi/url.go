package adminapi

import (
	"net"
	"net/netip"
	"strings"
)

// URLs returns where the gateway can be reached from the network: with TLS if any such
// listener is for others than this machine, else without. Each listener for all
// addresses has one for the network name, "" for none, and one for each address.
func URLs(listeners []Listener, addresses []netip.Addr, networkName string) (all []string) {
	for _, scheme := range []string{"https", "http"} {
		for _, l := range listeners {
			host, port, err := net.SplitHostPort(l.Address)
			if l.Name != scheme || err != nil {
				continue
			}
			for _, h := range hosts(host, addresses, networkName) {
				all = append(all, urlOf(scheme, h, port))
			}
		}
		if len(all) > 0 {
			break
		}
	}
	return all
}

// hosts returns the names and addresses of a listener on host; none on loopback.
func hosts(host string, addresses []netip.Addr, networkName string) (all []string) {
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() && !ip.IsUnspecified() {
		return []string{host}
	}
	if ip.IsLoopback() {
		return nil
	}
	if networkName != "" {
		all = append(all, networkName+".local")
	}
	for _, a := range addresses {
		all = append(all, a.String())
	}
	return all
}

// urlOf leaves out the usual port.
func urlOf(scheme, host, port string) string {
	usual := map[string]string{"https": ":443", "http": ":80"}[scheme]
	return scheme + "://" + strings.TrimSuffix(net.JoinHostPort(host, port), usual)
}
