package homeassistant

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"gatehouse/internal/site"
)

// The last parts of the gateway's own topics.
const (
	stateLeaf   = "state" // of a station: retained
	eventLeaf   = "event" // of a station
	commandLeaf = "set"   // of a lock, to the gateway
	none        = "None"  // what Home Assistant takes for unknown, where payload_reset says nothing else
	unlocking   = "unlocking"
	diagnostic  = "diagnostic"
)

// object is a JSON object.
type object map[string]any

func (l *Link) statusTopic() string { return l.base + "/status" }

func (l *Link) topic(id site.StationID, leaf string) string {
	return l.base + "/" + id.String() + "/" + leaf
}

// device returns the name of a station's device, or of the gateway's for 0: letters, digits,
// _ and - alone.
func (l *Link) device(id site.StationID) string {
	name := "gatehouse_" + string(l.Gateway)
	if id != 0 {
		name += "_" + id.String()
	}
	return name
}

// configTopic returns the topic of the discovery of a device.
func (l *Link) configTopic(id site.StationID) string {
	return l.Prefix + "/device/" + l.device(id) + "/config"
}

// stationState is what is retained of a station's state.
type stationState struct {
	Status  site.StationStatus `json:"status"`
	Voltage *float64           `json:"voltage"`
	Battery string             `json:"battery"` // "low" or "ok"
	Locks   []lockState        `json:"locks"`
}

type lockState struct {
	State string `json:"state"` // site.LockStatus, or "unlocking"
	Door  string `json:"door"`  // site.DoorStatus, or "None"
}

func (s *session) stateOf(now site.StationState) string {
	state := stationState{Status: now.Status, Voltage: now.BatteryVoltage, Battery: "ok", Locks: make([]lockState, len(now.Locks))}
	if v := now.BatteryVoltage; v != nil && *v < s.BatteryLow {
		state.Battery = "low"
	}
	for i, lock := range now.Locks {
		state.Locks[i] = lockState{string(lock.Status), none}
		if lock.Door == site.DoorOpen || lock.Door == site.DoorClosed {
			state.Locks[i].Door = string(lock.Door)
		}
		if _, under := s.opening[doorway{now.ID, lock.ID.String()}]; under {
			state.Locks[i].State = unlocking
		}
	}
	return string(encode(state))
}

// formOf returns what the configuration depends on beside the enrolment: what the station
// has ever reported.
func formOf(now site.StationState) string {
	form := fmt.Sprint(now.BatteryVoltage != nil)
	for _, lock := range now.Locks {
		form += fmt.Sprint(!lock.LastUpdated.IsZero(), lock.Door != "")
	}
	return form
}

// gatewayConfig returns the discovery of the gateway's device.
func (l *Link) gatewayConfig() []byte {
	return encode(object{
		"device": object{"identifiers": []string{l.device(0)}, "name": "Gatehouse", "manufacturer": "Gatehouse", "model": "Gateway", "sw_version": l.Version},
		"origin": l.origin(),
		"components": object{"link": object{
			"platform": "binary_sensor", "unique_id": l.device(0) + "_link", "device_class": "connectivity", "entity_category": diagnostic,
			"state_topic": l.statusTopic(), "payload_on": site.Online, "payload_off": site.Offline,
		}},
	})
}

func (l *Link) origin() object { return object{"name": "Gatehouse", "sw_version": l.Version} }

// stationConfig returns the discovery of a station's device, with the removal of the locks
// beyond its own, up to that many.
func (l *Link) stationConfig(st site.Station, now site.StationState, locks int) []byte {
	name := st.Name
	if name == "" {
		name = "Station " + st.ID.String()
	}
	state, reachable := l.topic(st.ID, stateLeaf), object{"topic": l.statusTopic()}
	c := components{id: l.device(st.ID), state: state, all: object{}}
	c.add("link", "binary_sensor", true, value("status", object{
		"name": "Connection", "device_class": "connectivity", "entity_category": diagnostic,
		"payload_on": site.Online, "payload_off": site.Offline, "availability": []object{reachable},
	}))
	c.add("battery", "binary_sensor", now.BatteryVoltage != nil, value("battery", object{
		"name": "Battery", "device_class": "battery", "entity_category": diagnostic, "payload_on": "low", "payload_off": "ok",
	}))
	c.add("voltage", "sensor", now.BatteryVoltage != nil, value("voltage", object{
		"name": "Battery voltage", "device_class": "voltage", "unit_of_measurement": "V", "state_class": "measurement", "entity_category": diagnostic,
	}))
	c.add("event", "event", true, object{
		"name": "Access", "event_types": eventTypes(), "availability": []object{reachable}, "state_topic": l.topic(st.ID, eventLeaf),
	})
	for n := 1; n <= max(locks, st.Locks); n++ {
		c.addLock(l, st, now, n)
	}
	return encode(object{
		"device": object{"identifiers": []string{l.device(st.ID)}, "name": name, "manufacturer": "Gatehouse", "model": "Station", "via_device": l.device(0)},
		"origin": l.origin(), "availability_mode": "all",
		"availability": []object{reachable, {"topic": state, "value_template": "{{ value_json.status }}"}},
		"components":   c.all,
	})
}

// components are the components of a device.
type components struct {
	id, state string
	all       object
}

// add adds a component, or what removes it, which is its platform alone.
func (c components) add(key, platform string, there bool, config object) {
	one := object{"platform": platform}
	if there {
		one["unique_id"] = c.id + "_" + key
		if platform != "button" {
			one["state_topic"] = c.state
		}
		maps.Copy(one, config)
	}
	c.all[key] = one
}

// addLock adds lock n of a station and its door, or removes them where the station has no
// such lock. What can be unlocked is a lock, or a button where it reports no status; what
// can not is a sensor.
func (c components) addLock(l *Link, st site.Station, now site.StationState, n int) {
	var lock site.Lock
	there, opens := n <= min(st.Locks, len(now.Locks)), st.HomeAssistant == site.HomeAssistantUnlock
	if there {
		lock = now.Locks[n-1]
	}
	at, reports := fmt.Sprintf("locks[%d].", n-1), there && !lock.LastUpdated.IsZero()
	set := object{
		"command_topic":    l.topic(st.ID, site.LockID(n).String()+"/"+commandLeaf),
		"command_template": `{"command":"{{ value }}","at":{{ now().timestamp() }}}`, "qos": 1, "retain": false,
	}
	c.add(fmt.Sprintf("lock_%d", n), "lock", reports && opens, value(at+"state", merge(set, object{
		"name": fmt.Sprintf("Lock %d", n), "optimistic": false,
		"payload_lock": wordLock, "payload_unlock": wordUnlock, "payload_reset": site.Unknown,
		"state_locked": site.Locked, "state_unlocked": site.Unlocked, "state_jammed": site.Jammed, "state_unlocking": unlocking, "state_locking": "locking",
	})))
	c.add(fmt.Sprintf("button_%d", n), "button", there && !reports && opens, merge(set, object{
		"name": fmt.Sprintf("Unlock %d", n), "payload_press": wordUnlock,
	}))
	c.add(fmt.Sprintf("status_%d", n), "sensor", reports && !opens, object{
		"name": fmt.Sprintf("Lock %d", n), "device_class": "enum", "options": []any{site.Locked, site.Unlocked, site.Jammed, unlocking},
		"value_template": "{{ value_json." + at + "state if value_json." + at + "state != 'unknown' else None }}",
	})
	c.add(fmt.Sprintf("door_%d", n), "binary_sensor", there && lock.Door != "", value(at+"door", object{
		"name": fmt.Sprintf("Door %d", n), "device_class": "door", "payload_on": site.DoorOpen, "payload_off": site.DoorClosed,
	}))
}

// value adds the template that reads a part of a station's state.
func value(expression string, config object) object {
	config["value_template"] = "{{ value_json." + expression + " }}"
	return config
}

func merge(a, b object) object {
	maps.Copy(b, a)
	return b
}

// eventTypes lists the kinds of records that are events: what happens at doors.
func eventTypes() []site.Kind {
	return []site.Kind{
		site.KindUnlock, site.KindNotOpened, site.KindDoorOpened, site.KindDoorClosed, site.KindDoorForced, site.KindDoorHeld,
		site.KindLeftUnlocked, site.KindStationSilent, site.KindRefusedOften, site.KindBatteryLow,
	}
}

func isEvent(r site.Record) bool {
	return slices.Contains(eventTypes(), r.Kind) && r.Outcome != site.Requested
}

// eventOf returns a record as Home Assistant's event, with who it was.
func eventOf(r site.Record) []byte {
	event := object{"event_type": r.Kind, "seq": r.Seq, "time": r.Time}
	for name, text := range map[string]string{
		"lock": r.Lock, "actor": string(r.Email), "origin": string(r.Origin), "outcome": string(r.Outcome), "detail": r.Detail,
	} {
		if text != "" {
			event[name] = text
		}
	}
	if by := r.Doer(); by != "" {
		event["actor"] = by
	}
	return encode(event)
}

// encode returns v as JSON; what it is given here can always be encoded.
func encode(v any) []byte {
	text, _ := json.Marshal(v)
	return text
}
