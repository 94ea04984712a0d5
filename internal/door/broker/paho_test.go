package broker_test

import (
	"testing"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

// pahoOptions are those of a station that speaks through paho.
func pahoOptions(g *gate, id site.StationID) *mqtt.ClientOptions {
	return mqtt.NewClientOptions().AddBroker("tcp://" + g.address).
		SetClientID(id.ClientID()).SetUsername(id.ClientID()).SetPassword(secretOf(id)).
		SetAutoReconnect(false).SetProtocolVersion(4).
		SetConnectTimeout(await.Patience).SetWriteTimeout(await.Patience).SetPingTimeout(await.Patience)
}

// done waits for a token of paho's.
func done(t *testing.T, token mqtt.Token) {
	t.Helper()
	await.Receive(t, "paho", token.Done())
	if err := token.Error(); err != nil {
		t.Fatal(err)
	}
}

// A client that others wrote gets on with the broker.
func TestServer_paho(t *testing.T) {
	g := open(t, setup{})
	station := mqtt.NewClient(pahoOptions(g, 42))
	done(t, station.Connect())
	commands := make(chan mqtt.Message, 1)
	subscribing := station.Subscribe(commandTopic(42), 1, func(_ mqtt.Client, m mqtt.Message) { commands <- m })
	done(t, subscribing)
	if granted := subscribing.(*mqtt.SubscribeToken).Result()[commandTopic(42)]; granted != 1 {
		t.Errorf("granted QoS %d", granted)
	}
	if err := g.connOf(42).Send(9, 1, says("open"), await.Deadline()); err != nil {
		t.Fatal(err)
	}
	if m := <-commands; string(m.Payload()) != "open" || m.Topic() != commandTopic(42) || m.Qos() != 1 || m.Retained() || m.Duplicate() {
		t.Errorf("%s %q", m.Topic(), m.Payload())
	}
	if e := g.handler.awaitEvent(t, "ack", 1); e.id != 9 || e.code != 0 {
		t.Errorf("%+v", e)
	}
	done(t, station.Publish("stations/42/report", 1, false, "a"))
	done(t, station.Publish("stations/42/result", 0, false, "b"))
	if e := g.handler.awaitEvent(t, "report", 1); e.text != "a" {
		t.Errorf("%+v", e)
	}
	if e := g.handler.awaitEvent(t, "result", 1); e.text != "b" {
		t.Errorf("%+v", e)
	}
	foreign := station.Subscribe("#", 1, nil)
	await.Receive(t, "the answer", foreign.Done())
	if granted := foreign.(*mqtt.SubscribeToken).Result()["#"]; granted != 0x80 {
		t.Errorf("granted %#x for #", granted)
	}
	station.Disconnect(0)
	g.handler.awaitEvent(t, "disconnected", 1)
}

func TestServer_paho_refused(t *testing.T) {
	g := open(t, setup{})
	for _, options := range []*mqtt.ClientOptions{
		pahoOptions(g, 42).SetPassword("no"),
		pahoOptions(g, 42).SetClientID("station-43"),
		pahoOptions(g, 42).SetUsername("").SetPassword(""),
		pahoOptions(g, 42).SetWill("stations/42/report", "{}", 1, false),
	} {
		token := mqtt.NewClient(options).Connect()
		if await.Receive(t, "the answer", token.Done()); token.Error() == nil {
			t.Errorf("%s was let in", options.ClientID)
		}
	}
}

// A station whose secret is revoked notices.
func TestServer_paho_reset(t *testing.T) {
	g := open(t, setup{})
	lost := make(chan error, 1)
	station := mqtt.NewClient(pahoOptions(g, 42).SetConnectionLostHandler(func(_ mqtt.Client, err error) { lost <- err }))
	done(t, station.Connect())
	g.connOf(42).Reset("revoked")
	await.Receive(t, "the station notices", lost)
	if e := g.handler.awaitEvent(t, "disconnected", 1); e.text != "revoked" {
		t.Errorf("%+v", e)
	}
}
