package cloudtest_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
)

// elsewhere is an address of the test's own network that is not loopback.
const elsewhere = "192.0.2.10"

// Any machine that answered for the name of the house's broker opened the doors that are set
// to state+unlock. Now that takes TLS, a broker on this machine, or plain_unlock.
func TestAttack_plainHouse(t *testing.T) {
	need.Program(t, "mosquitto")
	if !gatewaytest.InNamespaces(t) {
		return
	}
	if out, err := exec.CommandContext(t.Context(), "ip", "address", "add", elsewhere+"/32", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h := &home{broker: brokertest.Mosquitto(t), cfg: gatewaytest.Configure(t), door: &door{}}
	proxy, err := brokertest.ListenProxy(elsewhere+":0", h.broker.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	h.cfg.Unlock.TTL = unlockTTL
	h.cfg.Homeassistant.URL, h.cfg.Homeassistant.Username = proxy.URL(), "gatehouse"
	h.start(t, 1)
	h.mode(1, site.HomeAssistantUnlock)
	a := newAssistant(t, h.broker)
	h.finding(t, "counts as state", "password")
	a.await("the station is shown", holds(h.config(1), `"status_1":{"d`, `"lock_1":{"platform":"lock"}`, `"sw_version"`))
	text := fmt.Appendf(nil, `{"command":"UNLOCK","at":%.6f}`, float64(time.Now().UnixMicro())/1e6)
	a.send(mqttclient.Message{Topic: h.topic("1/lock-1/set"), Payload: text, QoS: 1})
	h.AwaitRecord("the command is denied", func(r site.Record) bool { return r.Kind == site.KindDenied && r.Origin == site.Integration })
	if n := h.opened(1, 0); n != 0 {
		t.Fatalf("opened %d times", n)
	}
	if err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	h.cfg.Homeassistant.PlainUnlock = true
	h.Gateway = gatewaytest.Run(t, h.cfg)
	h.finding(t, "plain_unlock is set")
	a.await("the station can be opened", holds(h.config(1), `"lock_1":{"command`))
}

// finding waits for a finding about the broker with these words.
func (h *home) finding(t *testing.T, words ...string) {
	t.Helper()
	h.Await("the finding about the broker", func() bool {
		status, err := h.Admin.Status(t.Context())
		return err == nil && slices.ContainsFunc(status.Conditions, func(c health.Condition) bool {
			return c.Code == health.HomeAssistantPlain && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(c.Summary, word) })
		})
	})
}
