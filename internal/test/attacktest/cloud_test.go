package attacktest_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
)

// cloudSite is a real gateway with one simulated station, linked to a Mosquitto where an
// application listens and signs commands.
type cloudSite struct {
	*gatewaytest.Program
	broker  *brokertest.Broker
	key     api.PrivateKey
	gateway site.GatewayID
	issued  adminapi.IssuedStation
	station *stationsim.Station
	app     *application
}

// newCloudSite starts the broker, the gateway, which trusts more keys also, and the station.
func newCloudSite(t *testing.T, launch gatewaytest.Launch, more ...api.PrivateKey) *cloudSite {
	t.Helper()
	need.Program(t, "mosquitto")
	s := &cloudSite{broker: brokertest.Mosquitto(t)}
	var err error
	if s.key, err = api.Generate("front-desk"); err != nil {
		t.Fatal(err)
	}
	keys := s.key.Public().String()
	for _, key := range more {
		keys += "," + key.Public().String()
	}
	launch.Env = append([]string{
		"GATEHOUSE_MQTT_LISTEN=" + ownAddress(), "GATEHOUSE_CLOUD_URL=" + s.broker.URL(), "GATEHOUSE_CLOUD_KEYS=" + keys,
	}, launch.Env...)
	s.Program = gatewaytest.Exec(t, launch)
	status, err := s.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.gateway = status.GatewayID
	s.acceptClock()
	s.AddAccount()
	s.issued = s.Enrol(1042)
	s.play(t)
	s.app = newApplication(t, s.broker.URL(), s.gateway)
	s.awaitLink()
	return s
}

// sites counts those of this process.
var sites atomic.Int32 //nolint:gochecknoglobals // as the ports of a process are

// ownAddress returns an address on which a gateway can listen again after a restart: its
// host is this process's alone.
func ownAddress() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d:%d", 128+pid>>16, pid>>8&255, pid&255, 18000+sites.Add(1))
}

// play runs the station until the test ends; it comes back after a restart.
func (s *cloudSite) play(t *testing.T) {
	t.Helper()
	var err error
	s.station, err = stationsim.New(stationsim.Config{
		Broker: stationsim.Broker{Address: s.MQTT}, ID: 1042, Secret: site.Secret(s.issued.MQTT.Password), Actuation: time.Millisecond, Relock: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.station.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	s.awaitStation()
}

func (s *cloudSite) awaitStation() {
	s.T.Helper()
	s.AwaitOnline(1042, true)
	s.Await("the station has subscribed", func() bool { return s.station.Status().Connected })
}

// restart kills the gateway, as a power cut does, and starts it again.
func (s *cloudSite) restart() {
	s.T.Helper()
	s.Kill()
	s.Start()
	s.AwaitReady()
	s.acceptClock()
	s.awaitStation()
	s.awaitLink()
}

// acceptClock has the gateway carry out commands on a machine without a time service.
func (s *cloudSite) acceptClock() {
	s.T.Helper()
	if out, status := s.Run("clock", "accept"); status != 0 {
		s.T.Fatal(out)
	}
}

func (s *cloudSite) awaitLink() {
	s.T.Helper()
	s.Await("the cloud link is up", func() bool {
		status, err := s.Admin.Status(s.T.Context())
		return err == nil && status.Cloud != nil && status.Cloud.Connected
	})
}

// token signs a command for lock-1 that holds for a minute.
func (s *cloudSite) token(id string) []byte { return s.tokenBy(s.key, id) }

// tokenBy is token with another key.
func (s *cloudSite) tokenBy(key api.PrivateKey, id string) []byte {
	s.T.Helper()
	return s.sign(key, api.Command{ID: id, IssuedAt: time.Now()})
}

// sign signs a command for lock-1 that holds for a minute from IssuedAt.
func (s *cloudSite) sign(key api.PrivateKey, cmd api.Command) []byte {
	s.T.Helper()
	cmd.Gateway, cmd.Name, cmd.Station, cmd.Lock, cmd.Actor = s.gateway, api.Unlock, 1042, 1, "uid 0"
	cmd.Expires = cmd.IssuedAt.Add(time.Minute)
	token, err := key.Sign(cmd)
	if err != nil {
		s.T.Fatal(err)
	}
	return []byte(token)
}

// command publishes a token and returns the next answer to its id.
func (s *cloudSite) command(id string, token []byte) api.Result {
	s.T.Helper()
	before := len(s.app.results(id))
	s.app.publish(s.T, api.CommandLeaf, token, false)
	s.Await("the command "+id+" is answered", func() bool { return len(s.app.results(id)) > before })
	return s.app.results(id)[before]
}

// application is what listens at the broker.
type application struct {
	gateway site.GatewayID
	conn    *mqttclient.Conn

	mu  sync.Mutex // mu guards all
	all []mqttclient.Message
}

func newApplication(t *testing.T, url string, gateway site.GatewayID) *application {
	t.Helper()
	a := &application{gateway: gateway}
	var err error
	a.conn, err = mqttclient.Dial(t.Context(), mqttclient.Config{
		Broker: mqttclient.Broker{URL: url, ClientID: "application-" + rand.Text()[:8], Keepalive: time.Minute}, Topics: api.Filters(gateway), MaxPayload: 1 << 16,
		Receive: func(m mqttclient.Message) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.all = append(a.all, m)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.conn.Close)
	return a
}

// on returns what has come on the topic of a leaf, and named on any topic.
func (a *application) on(leaf api.Leaf) []mqttclient.Message {
	return a.named(api.Topic(a.gateway, leaf))
}

func (a *application) named(topic string) []mqttclient.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.all), func(m mqttclient.Message) bool { return m.Topic != topic })
}

// results returns the answers to one command, in no order.
func (a *application) results(id string) (found []api.Result) {
	for _, m := range a.on(api.ResultLeaf) {
		var r api.Result
		if json.Unmarshal(m.Payload, &r) == nil && r.ID == id {
			found = append(found, r)
		}
	}
	return found
}

func (a *application) publish(t testing.TB, leaf api.Leaf, payload []byte, retained bool) {
	t.Helper()
	d := a.conn.Publish(mqttclient.Message{Topic: api.Topic(a.gateway, leaf), QoS: 1, Payload: payload, Retained: retained})
	await.Receive(t, "the broker has what was published", d.Done())
	if err := d.Err(); err != nil && !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
}
