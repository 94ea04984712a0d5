package gateway_test

import (
	"net"
	"slices"
	"strconv"
	"testing"

	"gatehouse/internal/board/discovery"
	"gatehouse/internal/test/gatewaytest"
)

// The network is told of what other machines reach, by its port, and of nothing else.
func TestGateway_services(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	cfg.HTTP.TLSListen, cfg.MQTT.TLSListen = []string{"127.0.0.1:0", "[::]:0"}, []string{"127.0.0.1:0"}
	g, err := newGateway(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	services := g.Services()
	if len(services) != 2 {
		t.Fatalf("%v", services)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(services[0].Port))))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if want := []discovery.Service{
		{Type: "_gatehouse._tcp", Port: services[0].Port, Text: "api=1"},
		{Type: "_https._tcp", Port: services[0].Port, Text: "path=/"},
	}; !slices.Equal(services, want) {
		t.Errorf("%v, want %v", services, want)
	}
}
