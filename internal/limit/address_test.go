package limit_test

import (
	"net"
	"net/netip"
	"testing"

	"gatehouse/internal/limit"
)

func TestAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1", "[::ffff:192.0.2.1]:1": "192.0.2.1", "[2001:db8::1]:1": "2001:db8::1", "[fe80::1%lo]:1": "fe80::1%lo",
	} {
		addr, err := net.ResolveTCPAddr("tcp", remote)
		if err != nil {
			t.Fatal(err)
		}
		if got := limit.Address(addr); got.String() != want {
			t.Errorf("%s is counted as %s", remote, got)
		}
	}
	if limit.Address(&net.UnixAddr{}).IsValid() {
		t.Error("a Unix socket has an address")
	}
}

func TestNetwork(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":            "192.0.2.7",
		"::ffff:192.0.2.7":     "192.0.2.7",
		"2001:db8:0:1:2:3:4:5": "2001:db8:0:1::",
		"fe80::1%eth0":         "fe80::%eth0",
	} {
		if got := limit.Network(netip.MustParseAddr(address)); got != netip.MustParseAddr(want) {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	if got := limit.Network(netip.Addr{}); got.IsValid() {
		t.Errorf("no address: %s", got)
	}
}
