package machine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
)

const (
	// avahiSocket answers queries in avahi's simple text protocol.
	avahiSocket = "/run/avahi-daemon/socket"
	// resolvedStub is the DNS server of systemd-resolved. Among the names of
	// resolvedItself it has the one that it publishes.
	resolvedStub, resolvedItself = "127.0.0.53:53", "127.0.0.2"
)

// PublishedName returns the name that the mDNS responder of this machine publishes, avahi
// or systemd-resolved: NAME.local finds it. They choose another than the system's where
// another machine has that already (RFC 6762, 9). "" where neither answers.
func PublishedName(ctx context.Context, addresses []netip.Addr) string {
	return publishedBy(ctx, avahiSocket, resolvedStub, addresses)
}

func publishedBy(ctx context.Context, avahi, stub string, addresses []netip.Addr) string {
	for _, address := range addresses {
		if !address.IsLoopback() {
			if name := nameByAvahi(ctx, avahi, address); name != "" {
				return name
			}
			break // avahi waits for seconds where it has none
		}
	}
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, stub)
	}}
	names, _ := resolver.LookupAddr(ctx, resolvedItself) // some may have been read
	for _, name := range names {
		if name := localName(name); name != "" {
			return name
		}
	}
	return ""
}

// nameByAvahi asks avahi who has an address: "+ 2 0 gate.local" is its answer.
func nameByAvahi(ctx context.Context, socket string, address netip.Addr) string {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return ""
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "RESOLVE-ADDRESS %s\n", address.WithZone("")); err != nil {
		return ""
	}
	answer, _ := bufio.NewReader(io.LimitReader(conn, 512)).ReadString('\n') // what is cut off has no name
	fields := strings.Fields(answer)
	if len(fields) != 4 || fields[0] != "+" {
		return ""
	}
	return localName(fields[3])
}

// localName returns NAME of "NAME.local", "" of anything else.
func localName(text string) string {
	name, local := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(text, ".")), ".local")
	if !local || strings.Contains(name, ".") || len(name) > 63 {
		return ""
	}
	return networkName(name)
}
