package gateway_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/config"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/brokertest"
)

// canaryCloud is the cloud of a canaryHouse.
type canaryCloud struct {
	t      *testing.T
	broker *brokertest.Broker
	key    api.PrivateKey

	mu   sync.Mutex
	came []string // everything that the gateway has sent
}

// newCanaryCloud starts a broker that wants a password, and returns what the gateway needs
// to reach it.
func newCanaryCloud(t *testing.T, password string, cfg *config.Cloud) *canaryCloud {
	t.Helper()
	c := &canaryCloud{t: t, broker: brokertest.Mosquitto(t, brokertest.Users(map[string]string{"north-gate": password, "cloud": "password-of-the-application"}))}
	var err error
	if c.key, err = api.Generate("canary"); err != nil {
		t.Fatal(err)
	}
	cfg.URL, cfg.Username, cfg.Password = c.broker.URL(), "north-gate", site.Secret(password)
	cfg.Ack, cfg.Keys = config.AckBroker, []string{c.key.Public().String()}
	return c
}

// listen takes everything that the gateway sends.
func (c *canaryCloud) listen() *mqttclient.Conn {
	c.t.Helper()
	conn, err := mqttclient.Dial(c.t.Context(), mqttclient.Config{
		Broker: mqttclient.Broker{
			URL: c.broker.URL(), ClientID: "canary-application", Username: "cloud", Password: "password-of-the-application", Keepalive: time.Minute,
		},
		Topics: api.Filters("+"), MaxPayload: 1 << 16, PerSecond: 10_000, Burst: 10_000,
		Receive: func(m mqttclient.Message) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.came = append(c.came, m.Topic+" "+string(m.Payload))
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Close)
	return conn
}

// heard returns everything that the gateway has sent.
func (c *canaryCloud) heard() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.came, "\n")
}

// commands sends signed commands, well and badly, and waits until each is answered. What
// was sent may open a door until it expires, and stands nowhere.
func (h *canaryHouse) commands() {
	t := h.t
	h.g.Await("the gateway is at the cloud", func() bool {
		status, err := h.g.Admin.Status(t.Context())
		return err == nil && status.Cloud.Connected
	})
	status, err := h.g.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.g.Admin.AcceptClock(t.Context()); err != nil { // else they are refused on a machine without a time service
		t.Fatal(err)
	}
	conn := h.cloud.listen()
	stranger, err := api.Generate("canary")
	if err != nil {
		t.Fatal(err)
	}
	for jti, key := range map[string]api.PrivateKey{"canary-good-1": h.cloud.key, "canary-bad-2": stranger} {
		token, err := key.Sign(api.Command{
			ID: jti, Gateway: status.GatewayID, Name: api.Unlock, Station: 1043, Lock: 1, Actor: "the porter",
			IssuedAt: time.Now(), Expires: time.Now().Add(time.Minute),
		})
		if err != nil {
			t.Fatal(err)
		}
		signature := token[strings.LastIndex(token, ".")+1:]
		h.keep("signature of "+jti, signature)
		conn.Publish(mqttclient.Message{Topic: api.Topic(status.GatewayID, api.CommandLeaf), Payload: []byte(token), QoS: 1})
	}
	rubbish := h.keep("password sent as a command", "a-password-sent-as-a-command")
	conn.Publish(mqttclient.Message{Topic: api.Topic(status.GatewayID, api.CommandLeaf), Payload: []byte(rubbish), QoS: 1})
	h.g.Await("the commands are answered", func() bool {
		all := h.cloud.heard()
		return strings.Contains(all, `{"id":"canary-good-1","outcome":"offline"`) && strings.Contains(all, `"reason":"bad-signature"`) && strings.Contains(all, `"reason":"malformed"`)
	})
	private, err := h.cloud.key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	h.misplaced(strings.Split(private.Reveal(), "\n")[2])
}

// misplaced puts a private key where the configuration has the ids and the public halves
// of those that are trusted.
func (h *canaryHouse) misplaced(private string) {
	t := h.t
	der, err := base64.StdEncoding.DecodeString(private)
	if err != nil {
		t.Fatal(err)
	}
	seed := der[len(der)-ed25519.SeedSize:]
	h.keep("private key of the commands", private)
	seed64 := h.keep("seed of the private key", base64.StdEncoding.EncodeToString(seed))
	seedHex := h.keep("seed of the private key in hexadecimal", hex.EncodeToString(seed))
	public := base64.StdEncoding.EncodeToString(h.cloud.key.Public().Public)
	for _, line := range []string{
		private, private + " front-desk", private + " " + private, "front-desk " + private, private[:32] + " " + private[32:],
		private + " " + public, seed64 + " front-desk", seed64 + " " + public, seedHex + " " + public, private + " " + public + " front-desk",
	} {
		cfg := h.g.Config
		cfg.Cloud.Keys = []string{line}
		parse := func(value string) error {
			_, _, err := config.Lay([]config.File{{Name: "f.toml", Text: []byte("data = \"/d\"\n[cloud]\nkeys = " + value)}}, nil)
			return err
		}
		for _, err := range []error{nil, parse("[\"" + line + "\"]")} { // as it is found late, and early
			h.hear("the refusal of a key", fmt.Sprint(err))
			got := reload(t, h.g, cfg, err)
			if got[health.ConfigurationInvalid].Code == "" || strings.Contains(fmt.Sprint(got), private[:32]) {
				t.Errorf("a private key in the place of a public one: %v", got)
			}
		}
		h.hear("the refusal of a text as keys", fmt.Sprint(parse("\""+line+"\"")))
	}
	reload(t, h.g, h.g.Config, nil)
}
