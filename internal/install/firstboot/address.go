package firstboot

import (
	"context"
	"slices"
	"time"

	"gatehouse/internal/web/adminapi"
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

// urls returns where the gateway can be reached from the network.
func (b *boot) urls() []string {
	all := adminapi.URLs(b.status.Listeners, b.status.Addresses, b.networkName())
	slices.Sort(all)
	return slices.Compact(all)
}

// awaitAddresses asks the gateway for its status until the network has given the board
// an address, for a moment.
func (b *boot) awaitAddresses(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, addressPatience)
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
