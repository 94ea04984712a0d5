package attacktest_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
)

// A host with many addresses of an IPv6 network had all its failures and every place there, and
// a newcomer of that network got in after minutes. It gets in at once, once the attacker has
// failed from each of its addresses; and a known device does so always, also at the very
// address of the attacker.
func TestAttack_loginNeighbours(t *testing.T) {
	t.Parallel()
	gatewaytest.Binary(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	throttledGateway(t)
	const own = "fd00:66::1:1"
	known := deviceAt(t, own)
	known.owner(t, own, gateIPv6, false)
	hosts := make([]phone, 200)
	for i := range hosts {
		hosts[i] = phoneAt(fmt.Sprintf("fd00:66::1:%x", 1+i))
	}
	failed := make([]atomic.Bool, len(hosts))
	defer flood(t, len(hosts), func(ctx context.Context, i, _ int) {
		if status, _ := hosts[i].login(ctx, gateIPv6, gatewaytest.Email, wrongPassword); status == http.StatusUnauthorized {
			failed[i].Store(true)
		}
	})()
	for range 5 {
		known.owner(t, own, gateIPv6, false)
	}
	for i := range failed {
		await.Until(t, "each address has failed", failed[i].Load)
	}
	for n := range 5 {
		owner(t, fmt.Sprintf("fd00:66::2:%x", n), gateIPv6, false)
	}
}
