package gateway

import (
	"cmp"
	"context"
	"time"

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
