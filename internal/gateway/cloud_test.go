package gateway_test

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/health"
	"gatehouse/internal/test/gatewaytest"
)

// silentBroker takes connections and says nothing. It returns what the last of them
// sent first, and when one has ended.
type silentBroker struct {
	address string
	came    chan string
	left    chan struct{}
}

func newSilentBroker(t *testing.T) *silentBroker {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &silentBroker{address: listener.Addr().String(), came: make(chan string, 100), left: make(chan struct{}, 100)}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go b.hear(conn)
		}
	}()
	return b
}

func (b *silentBroker) hear(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	first := make([]byte, 4096)
	n, _ := conn.Read(first)
	b.came <- string(first[:n])
	_, _ = io.Copy(io.Discard, conn)
	b.left <- struct{}{}
}

// Whatever is wrong with the cloud, the gateway is ready without it and doors open;
// what is wrong is told.
func TestGateway_cloud_neverInTheWay(t *testing.T) {
	silent := newSilentBroker(t)
	for name, test := range map[string]struct {
		broker mqttclient.Broker
		want   string // in the condition; "": there need not be one yet
	}{
		"unknown name":  {mqttclient.Broker{URL: "tls://mqtt.gatehouse.invalid"}, "mqtt.gatehouse.invalid"},
		"refused":       {mqttclient.Broker{URL: "tcp://127.0.0.1:1"}, "refused"},
		"silent":        {mqttclient.Broker{URL: "tcp://" + silent.address}, ""},
		"file missing":  {mqttclient.Broker{URL: "tls://127.0.0.1:1", CA: "/nonexistent/ca.pem"}, "/nonexistent/ca.pem"},
		"no credential": {mqttclient.Broker{URL: "tls://127.0.0.1:1", Username: "x", PasswordFile: "credential:cloud"}, "password_file"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := gatewaytest.Configure(t)
			keepAlive := cfg.Cloud.Keepalive
			cfg.Cloud.Broker = test.broker
			cfg.Cloud.Keepalive = keepAlive
			g := gatewaytest.Start(t, cfg) // ready, or the test fails
			issued := g.Enrol(1042)
			access, _ := g.Login()
			station := g.Dial(issued.MQTT)
			g.AwaitOnline(1042, true)
			opened := make(chan bool, 1)
			go func() { opened <- g.Unlock(access, issued.StationToken) }()
			station.Ack(station.Command())
			if !<-opened {
				t.Error("the door did not open")
			}
			g.Await("the link says what is wrong", func() bool {
				status, err := g.Admin.Status(t.Context())
				if err != nil || status.Cloud == nil || status.Cloud.Connected {
					t.Fatalf("%v, cloud %+v", err, status.Cloud)
				}
				return test.want == "" || slices.ContainsFunc(status.Conditions, func(c health.Condition) bool {
					return c.Code == health.CloudDown && strings.Contains(c.Summary, test.want) && c.Advice != ""
				})
			})
			if err := g.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A reload switches the cloud on, over to another broker and off, without a restart; one
// that changes nothing of it leaves the connection alone.
func TestGateway_cloud_reload(t *testing.T) {
	one, other := newSilentBroker(t), newSilentBroker(t)
	cfg := gatewaytest.Configure(t)
	g := gatewaytest.Run(t, cfg)
	next := cfg
	next.Cloud.URL = "tcp://" + one.address
	if got := reload(t, g, next, nil); got[health.RestartNeeded].Code != "" {
		t.Errorf("it waits for a restart: %+v", got)
	}
	status, err := g.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first := <-one.came; !strings.Contains(first, string(status.GatewayID)) || !strings.Contains(first, "MQTT") {
		t.Errorf("the broker was sent %q", first)
	}
	reload(t, g, next, nil)
	next.Cloud.URL = "tcp://" + other.address
	reload(t, g, next, nil)
	<-one.left
	<-other.came
	reload(t, g, cfg, nil)
	<-other.left
	if len(one.came)+len(other.came) > 0 {
		t.Error("a reload without a change made a new connection")
	}
	if status, err = g.Admin.Status(context.WithoutCancel(t.Context())); err != nil || status.Cloud != nil {
		t.Errorf("%v, cloud %+v", err, status.Cloud)
	}
}
