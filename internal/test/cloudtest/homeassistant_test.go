package cloudtest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/config"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// deviceSchema is what Home Assistant takes as the discovery of a device: it refuses
// unknown keys at the root, in device and in origin. A component has a platform and a
// unique_id, or is removed by its platform alone.
const deviceSchema = `{
	"type": "object", "additionalProperties": false, "required": ["device", "origin", "components"],
	"properties": {
		"device": {"type": "object", "additionalProperties": false, "required": ["identifiers", "name"], "properties": {
			"identifiers": {"type": "array", "items": {"type": "string"}, "minItems": 1}, "name": {"type": "string"}, "manufacturer": {"type": "string"},
			"model": {"type": "string"}, "sw_version": {"type": "string"}, "hw_version": {"type": "string"}, "serial_number": {"type": "string"},
			"suggested_area": {"type": "string"}, "via_device": {"type": "string"}, "configuration_url": {"type": "string"}}},
		"origin": {"type": "object", "additionalProperties": false, "required": ["name"], "properties": {
			"name": {"type": "string"}, "sw_version": {"type": "string"}, "support_url": {"type": "string"}}},
		"availability": {"$ref": "#/$defs/availability"}, "availability_mode": {"enum": ["all", "any", "latest"]},
		"state_topic": {"type": "string"}, "command_topic": {"type": "string"}, "qos": {"enum": [0, 1, 2]}, "encoding": {"type": "string"},
		"components": {"type": "object", "minProperties": 1, "propertyNames": {"pattern": "^[a-zA-Z0-9_-]+$"}, "additionalProperties": {
			"type": "object", "required": ["platform"], "properties": {
				"platform": {"enum": ["lock", "button", "sensor", "binary_sensor", "event"]}, "unique_id": {"type": "string", "pattern": "^[a-zA-Z0-9_-]+$"},
				"availability": {"$ref": "#/$defs/availability"}, "retain": {"const": false}, "optimistic": {"const": false}},
			"not": {"anyOf": [{"required": ["object_id"]}, {"required": ["default_entity_id"]}, {"required": ["model_id"]}]},
			"if": {"minProperties": 2}, "then": {"required": ["unique_id"], "allOf": [
				{"if": {"properties": {"platform": {"const": "lock"}}}, "then": {"required": ["command_topic", "command_template", "state_topic", "payload_lock", "payload_unlock",
					"payload_reset", "state_locked", "state_unlocked", "state_jammed", "state_locking", "state_unlocking"]}},
				{"if": {"properties": {"platform": {"const": "button"}}}, "then": {"required": ["command_topic", "command_template", "payload_press"]}},
				{"if": {"properties": {"platform": {"const": "event"}}}, "then": {"required": ["state_topic", "event_types"]}},
				{"if": {"properties": {"platform": {"enum": ["sensor", "binary_sensor"]}}}, "then": {"required": ["state_topic"]}}]}}}},
	"$defs": {"availability": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["topic"], "properties": {
		"topic": {"type": "string"}, "payload_available": {"type": "string"}, "payload_not_available": {"type": "string"}, "value_template": {"type": "string"}}}}}}`

// assistant is a Home Assistant as far as a gateway sees it: a client with a will and
// wildcards, which takes what is retained, but for events.
type assistant struct {
	t      testing.TB
	conn   *mqttclient.Conn
	schema *jsonschema.Schema

	mu      sync.Mutex // mu guards what follows
	last    map[string]string
	removed map[string]bool // topics that were emptied
	events  []map[string]any
}

func newAssistant(t testing.TB, b *brokertest.Broker) *assistant {
	t.Helper()
	a := &assistant{t: t, last: map[string]string{}, removed: map[string]bool{}}
	compiler := jsonschema.NewCompiler()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(deviceSchema))
	if err == nil {
		err = compiler.AddResource("device.json", document)
	}
	if err == nil {
		a.schema, err = compiler.Compile("device.json")
	}
	if err == nil {
		a.conn, err = mqttclient.Dial(await.Context(t), mqttclient.Config{
			Broker: mqttclient.Broker{URL: b.URL(), ClientID: "assistant-" + randomID(), Keepalive: keepalive},
			Topics: []string{"homeassistant/#", "gatehouse/#"}, MaxPayload: 1 << 20, PerSecond: 10_000, Burst: 10_000, Receive: a.receive,
			Will: &mqttclient.Message{Topic: "homeassistant/status", Payload: []byte("offline")},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.conn.Close()
		if t.Failed() {
			t.Logf("there is %v", a.last)
		}
	})
	return a
}

func (a *assistant) receive(m mqttclient.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if strings.HasSuffix(m.Topic, "/event") {
		event := map[string]any{}
		if err := json.Unmarshal(m.Payload, &event); err == nil && !m.Retained {
			a.events = append(a.events, event)
		}
		return
	}
	if strings.HasSuffix(m.Topic, "/config") && len(m.Payload) > 0 {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(m.Payload)))
		if err == nil {
			err = a.schema.Validate(document)
		}
		if err != nil {
			a.t.Errorf("%s: %v\n%s", m.Topic, err, m.Payload)
		}
	}
	if a.last[m.Topic] = string(m.Payload); len(m.Payload) == 0 {
		delete(a.last, m.Topic)
		a.removed[m.Topic] = true
	}
}

// await waits until what is known of the topics is as it should be.
func (a *assistant) await(what string, ok func(last map[string]string) bool) {
	a.t.Helper()
	await.Until(a.t, what, func() bool {
		a.mu.Lock()
		last := maps.Clone(a.last)
		a.mu.Unlock()
		return ok(last)
	})
}

// holds reports whether the payload of a topic has each of these parts.
func holds(topic string, parts ...string) func(map[string]string) bool {
	return func(last map[string]string) bool {
		payload, there := last[topic]
		for _, part := range parts {
			there = there && strings.Contains(payload, part)
		}
		return there
	}
}

func gone(topics ...string) func(map[string]string) bool {
	return func(last map[string]string) bool {
		for _, topic := range topics {
			if _, there := last[topic]; there {
				return false
			}
		}
		return true
	}
}

// press renders the command_template of a component of a device as Home Assistant does.
func (a *assistant) press(config, component, payload string) mqttclient.Message {
	a.t.Helper()
	var device struct {
		Components map[string]struct {
			Topic    string `json:"command_topic"`
			Template string `json:"command_template"`
		} `json:"components"`
	}
	a.mu.Lock()
	err := json.Unmarshal([]byte(a.last[config]), &device)
	a.mu.Unlock()
	c := device.Components[component]
	if err != nil || c.Topic == "" {
		a.t.Fatalf("there is no %s: %v", component, err)
	}
	at := fmt.Sprintf("%.6f", float64(time.Now().UnixMicro())/1e6)
	text := strings.NewReplacer("{{ value }}", payload, "{{ now().timestamp() }}", at).Replace(c.Template)
	return mqttclient.Message{Topic: c.Topic, Payload: []byte(text), QoS: 1}
}

func (a *assistant) send(all ...mqttclient.Message) {
	a.t.Helper()
	for _, m := range all {
		if err := a.conn.Publish(m).Err(); err != nil {
			a.t.Fatal(err)
		}
	}
}

// event waits for an event with these attributes.
func (a *assistant) event(want map[string]any) {
	a.t.Helper()
	a.await(fmt.Sprintf("the event %v", want), func(map[string]string) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, event := range a.events {
			same := true
			for name, value := range want {
				same = same && event[name] == value
			}
			if same {
				return true
			}
		}
		return false
	})
}

// home is a gateway with stations and a Home Assistant.
type home struct {
	*door
	broker *brokertest.Broker
	cfg    config.Config
}

func newHome(t *testing.T, stations int) *home {
	t.Helper()
	h := &home{broker: brokertest.Mosquitto(t), cfg: gatewaytest.Configure(t), door: &door{}}
	h.cfg.Unlock.TTL = unlockTTL
	h.cfg.Homeassistant.URL = h.broker.URL()
	h.start(t, stations)
	return h
}

// start runs the gateway with so many stations.
func (h *home) start(t *testing.T, stations int) {
	t.Helper()
	h.Gateway = gatewaytest.Run(t, h.cfg)
	h.acceptClock()
	status, err := h.Admin.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.id = status.GatewayID
	h.play(t, stations)
}

func (h *home) config(station int) string {
	return fmt.Sprintf("homeassistant/device/gatehouse_%s_%d/config", h.id, station)
}

func (h *home) topic(rest string) string { return fmt.Sprintf("gatehouse/%s/%s", h.id, rest) }

func (h *home) mode(station site.StationID, mode site.HomeAssistantMode) {
	h.T.Helper()
	if _, err := h.Admin.UpdateStation(h.T.Context(), station, adminapi.StationPatch{HomeAssistant: &mode}); err != nil {
		h.T.Fatal(err)
	}
}

// Home Assistant sees what it may, opens what it may, and sees no more what is switched off
// or removed; also after the broker or the gateway has restarted.
func TestHomeAssistant(t *testing.T) {
	t.Parallel()
	h := newHome(t, 2)
	a := newAssistant(t, h.broker)
	a.await("the gateway is there", holds("homeassistant/device/gatehouse_"+string(h.id)+"/config", "connectivity"))
	a.await("a station is shown", holds(h.config(1), `"status_1":{"d`, `"lock_1":{"platform":"lock"}`))
	a.await("its state", holds(h.topic("1/state"), `"status":"online"`, `"state":"locked"`))
	h.mode(1, site.HomeAssistantUnlock)
	a.await("a station can be opened", holds(h.config(1), `"lock_1":{"command`, `"status_1":{"platform":"sensor"}`))

	command := a.press(h.config(1), "lock_1", "UNLOCK")
	a.send(command, command)
	a.await("the lock is open", holds(h.topic("1/state"), `"locks":[{"state":"unlocked"`))
	a.event(map[string]any{"event_type": "unlock", "lock": "lock-1", "origin": "integration", "actor": "Home Assistant", "outcome": "done"})
	forbidden := a.press(h.config(1), "lock_1", "UNLOCK")
	forbidden.Topic = h.topic("2/lock-1/set")
	a.send(forbidden)
	h.AwaitRecord("what is not allowed is denied", func(r site.Record) bool {
		return r.Kind == site.KindDenied && r.Origin == site.Integration && r.Station == 2
	})

	a.event(map[string]any{"event_type": "unlock-denied", "origin": "integration"})
	late := a.press(h.config(1), "lock_1", "UNLOCK")
	late.Payload = []byte(`{"command":"UNLOCK","at":1764000000.5}`)
	a.send(late)
	a.event(map[string]any{"event_type": "unlock-failed", "lock": "lock-1", "outcome": "refused"})

	if n := h.opened(1, 1); n != 1 {
		t.Errorf("opened %d times", n)
	}

	h.broker.Kill()
	a.conn.Close()
	if err := h.broker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	a = newAssistant(t, h.broker)
	for _, topic := range []string{h.config(1), h.config(2)} {
		a.await("everything is back", holds(topic, `"platform"`))
	}
	a.await("the gateway is online", holds(h.topic("status"), "online"))
	a.await("the state is back", holds(h.topic("1/state"), `"locks":[{"state":"unlocked"`))

	a.mu.Lock()
	clear(a.last)
	a.mu.Unlock()
	a.send(mqttclient.Message{Topic: "homeassistant/status", Payload: []byte("online"), QoS: 1})
	a.await("a birth is answered", func(last map[string]string) bool {
		return holds(h.config(1), "lock_1")(last) && holds(h.topic("2/state"), "online")(last) && holds(h.topic("status"), "online")(last)
	})

	h.mode(2, site.HomeAssistantOff)
	a.await("what is switched off has gone", gone(h.config(2), h.topic("2/state")))
	if err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	a.await("the gateway has gone", holds(h.topic("status"), "offline"))
	for _, station := range []string{"2", "77"} { // as an earlier run has left them
		a.send(mqttclient.Message{Topic: "homeassistant/device/gatehouse_" + string(h.id) + "_" + station + "/config", QoS: 1, Retained: true, Payload: []byte(
			`{"device":{"identifiers":["x"],"name":"x"},"origin":{"name":"x"},"components":{"x":{"platform":"lock"}}}`)},
			mqttclient.Message{Topic: h.topic(station + "/state"), QoS: 1, Retained: true, Payload: []byte(`{"locks":[]}`)})
	}
	a.send(mqttclient.Message{Topic: h.topic("1/state"), QoS: 1, Retained: true, Payload: []byte(`{"locks":[{},{},{}]}`)}) // it had a lock more
	retained := a.press(h.config(1), "lock_1", "UNLOCK")
	retained.Retained = true // as it comes to a gateway that is not there yet
	a.send(retained)
	again := gatewaytest.Run(t, h.cfg)
	a.await("what an earlier run has left has gone", gone(h.config(2), h.topic("2/state"), h.config(77), h.topic("77/state")))
	a.await("a station that has lost a lock was removed and is back", func(last map[string]string) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.removed[h.config(1)] && holds(h.config(1), `"lock_2"`)(last) && !holds(h.config(1), `"lock_3"`)(last)
	})
	again.AwaitRecord("the retained command is refused", func(r site.Record) bool {
		return r.Outcome == site.Refused && r.Origin == site.Integration && strings.Contains(r.Detail, "retained")
	})
	if err := again.Admin.RemoveStation(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	a.await("what is removed has gone", gone(h.config(1), h.topic("1/state")))
}

// A client of the house's broker that sends late and malformed commands without end holds up
// no door, opens none and fills no journal.
func TestAttack_houseFlood(t *testing.T) {
	t.Parallel()
	const unlocks, between = 20, 2000
	h := newHome(t, 1)
	h.mode(1, site.HomeAssistantUnlock)
	newAssistant(t, h.broker).await("the station can be opened", holds(h.config(1), `"lock_1":{"command`))
	attacker := newSender(t, mqttclient.Config{Broker: mqttclient.Broker{URL: h.broker.URL()}}).conn
	progress, end, ended := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			command := []string{`{"command":"UNLOCK","at":1764000000.5}`, `{"command":"UNLOCK"`}[n%2]
			attacker.Publish(mqttclient.Message{Topic: h.topic("1/lock-1/set"), Payload: []byte(command)})
			if n%between != 0 {
				continue
			}
			select {
			case <-end:
				return
			case progress <- struct{}{}:
			default:
			}
		}
	}()
	for range unlocks {
		<-progress
		if answer, err := h.Admin.Unlock(t.Context(), 1, 1); err != nil || !answer.Success {
			t.Errorf("under the flood: %+v, %v", answer, err)
		}
	}
	close(end)
	<-ended
	if n := h.opened(1, unlocks); n != unlocks {
		t.Errorf("the door opened %d times, want %d", n, unlocks)
	}
	h.AwaitRecord("late commands are refused", func(r site.Record) bool { return r.Origin == site.Integration && r.Outcome == site.Refused })
	refused := slices.DeleteFunc(h.Records(), func(r site.Record) bool { return r.Origin != site.Integration })
	minutes := int(refused[len(refused)-1].Time.Sub(refused[0].Time.Time) / time.Minute)
	if len(refused) > 10*(1+minutes) { // of each reason there is one a minute
		t.Errorf("%d records in %d minutes", len(refused), minutes)
	}
}

// A broker that stalls or is out of reach holds up no door; the second is a condition.
func TestHomeAssistant_unreachable(t *testing.T) {
	t.Parallel()
	h := newHome(t, 1)
	newAssistant(t, h.broker).await("the station is there", holds(h.config(1), "lock_1"))
	open := func() {
		t.Helper()
		answer, err := h.Admin.Unlock(t.Context(), 1, 1)
		if err != nil || !answer.Success {
			t.Errorf("%+v, %v", answer, err)
		}
	}
	if err := syscall.Kill(h.broker.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		open()
	}
	h.broker.Kill()
	raised := func(want bool) {
		t.Helper()
		h.Await("the condition", func() bool {
			status, err := h.Admin.Status(t.Context())
			found := false
			for _, c := range status.Conditions {
				found = found || c.Code == "homeassistant-down"
			}
			return err == nil && found == want
		})
	}
	raised(true)
	open()
	if err := h.broker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	raised(false)
}
