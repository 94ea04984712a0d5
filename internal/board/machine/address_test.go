package machine_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/fstest"

	"gatehouse/internal/board/machine"
)

// The certificate names the addresses that last, and no others.
func TestReachable(t *testing.T) {
	const table = "20010db8000000000000000000000001 02 40 00 80     eth0\n" +
		"20010db8000000000000000000000bad 02 40 00 01     eth0\n" +
		"garbage\n"
	passing := machine.Temporary(fstest.MapFS{"proc/self/net/if_inet6": {Data: []byte(table)}})
	var found []net.Addr
	for _, text := range []string{
		"192.0.2.7/24", "127.0.0.1/8", "::1/128", "fe80::1/64", "169.254.1.1/16",
		"2001:db8::1/64", "2001:db8::bad/64", "fd00::5/64", "192.0.2.7/24",
	} {
		ip, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		network.IP = ip
		found = append(found, network)
	}
	var want []netip.Addr
	for _, text := range []string{"192.0.2.7", "2001:db8::1", "fd00::5"} {
		want = append(want, netip.MustParseAddr(text))
	}
	if got := machine.Reachable(found, passing); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
