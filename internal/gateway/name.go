package gateway

import (
	"cmp"
	"context"
	"net"
	"time"

	"gatehouse/internal/board/discovery"
	"gatehouse/internal/board/machine"
)

const (
	// nameEvery is how often the name on the network is looked up, and nameLimit how long
	// that may take.
	nameEvery = 20 * time.Second
	nameLimit = 5 * time.Second
)

// followName keeps up with the name that this machine has on the network.
func (g *Gateway) followName(ctx context.Context) error {
	tick := time.NewTicker(nameEvery)
	defer tick.Stop()
	for {
		limited, cancel := context.WithTimeout(ctx, nameLimit)
		name := machine.PublishedName(limited, machine.Addresses())
		cancel()
		if before := g.publishedName(); name != "" && name != before {
			g.log.Info("found on the network", "name", name+".local")
		}
		g.published.Store(&name)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// services lists what the network may find here: what other machines reach, by TLS.
func (g *Gateway) services() []discovery.Service {
	var all []discovery.Service
	if port := outerPort(g.listeners.http); port != 0 {
		all = append(all,
			discovery.Service{Type: "_gatehouse._tcp", Port: port, Text: "api=1"},
			discovery.Service{Type: "_https._tcp", Port: port, Text: "path=/"})
	}
	if port := outerPort(g.listeners.mqtt); port != 0 {
		all = append(all, discovery.Service{Type: "_secure-mqtt._tcp", Port: port})
	}
	return all
}

// outerPort returns the first port with TLS that other machines reach, or 0.
func outerPort(all []listener) uint16 {
	for _, l := range all {
		if addr, ok := l.net.Addr().(*net.TCPAddr); ok && l.tls != nil && !isLoopback(l.net) {
			return addr.AddrPort().Port()
		}
	}
	return 0
}

// networkName returns NAME where NAME.local finds this machine: as a responder of the
// machine publishes it, else the system's name. "" where nothing can find it by a name.
func (g *Gateway) networkName() string { return cmp.Or(g.publishedName(), machine.NetworkName()) }

// publishedName returns the name that a responder of this machine publishes, "" where none
// answers.
func (g *Gateway) publishedName() string {
	if name := g.published.Load(); name != nil {
		return *name
	}
	return ""
}
