package firstboot

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// noteName warns that the gateway cannot be found under its own name: mDNS publishes the
// name of the machine.
func (b *boot) noteName() {
	name, network := b.status.Name, b.networkName()
	if name == "" || network == name {
		return
	}
	called := "has no name"
	if network != "" {
		called = "is called " + network
	}
	b.warn("This machine %s on the network: \"hostnamectl hostname %s\" makes it %s.local.", called, name, name)
}

// networkName is what this machine will be called on the network, "" for nothing.
func (b *boot) networkName() string {
	if b.TakesName && b.status.Name != "" {
		return b.status.Name
	}
	return b.Network()
}

// urls returns where the gateway can be reached from the network: with TLS if it has
// any such address.
func (b *boot) urls() (all []string) {
	for _, scheme := range []string{"https", "http"} {
		for _, l := range b.status.Listeners {
			if l.Name == scheme {
				all = append(all, b.urlsOf(scheme, l.Address)...)
			}
		}
		if len(all) > 0 {
			break
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// urlsOf returns the URLs of one listener; none where only this board can reach it.
func (b *boot) urlsOf(scheme, address string) (all []string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	add := func(host string) {
		if scheme == "https" && port == "443" || scheme == "http" && port == "80" {
			all = append(all, scheme+"://"+bracketed(host))
			return
		}
		all = append(all, scheme+"://"+net.JoinHostPort(host, port))
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil || !ip.IsLoopback() && !ip.IsUnspecified():
		add(host)
	case ip.IsUnspecified():
		if name := b.networkName(); name != "" {
			add(name + ".local")
		}
		for _, a := range b.status.Addresses {
			add(a.String())
		}
	}
	return all
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// awaitAddresses asks the gateway for its status until the network has given the board
// an address, for a moment.
func (b *boot) awaitAddresses(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, min(addressPatience, b.Patience))
	defer cancel()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if status, err := b.gateway.Status(ctx); err == nil {
			b.status = status
		}
		if len(b.status.Addresses) > 0 {
			return
		}
		select {
		case <-limited.Done():
			b.warn("This board has no network address yet: look for it in your router, or on the text console.")
			return
		case <-ticker.C:
		}
	}
}
