package homeassistant

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gatehouse/internal/site"
)

// The discovery of the gateway's device, of a station's, and the components of one lock:
// see [Link.fill] for what begins with $.
var (
	//go:embed discovery/gateway.json
	gatewayDocument string
	//go:embed discovery/station.json
	stationDocument string
	//go:embed discovery/lock.json
	lockDocument string
)

// The last parts of the gateway's own topics.
const (
	stateLeaf   = "state" // of a station: retained
	eventLeaf   = "event" // of a station
	commandLeaf = "set"   // of a lock, to the gateway
	none        = "None"  // what Home Assistant takes for unknown, where payload_reset says nothing else
	unlocking   = "unlocking"
)

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

// fill fills in a document, for a station or 0, and for one of its locks or 0.
func (l *Link) fill(document string, id site.StationID, lock int) []byte {
	return []byte(strings.NewReplacer(
		"$base", l.base, "$version", l.Version, "$gateway", l.device(0), "$device", l.device(id),
		"$station", id.String(), "$number", strconv.Itoa(lock), "$index", strconv.Itoa(lock-1),
	).Replace(document))
}

// component is an entity of a device.
type component map[string]any

// only returns a component where it is there, else what removes it: its platform alone.
func only(there bool, c component) component {
	if there {
		return c
	}
	return component{"platform": c["platform"]}
}

// stationConfig returns the discovery of a station's device. What can be unlocked is a lock,
// or a button where it reports no status; what cannot be is a sensor.
func (s *session) stationConfig(st site.Station, now site.StationState) []byte {
	var device struct {
		Device           map[string]any       `json:"device"`
		Origin           json.RawMessage      `json:"origin"`
		AvailabilityMode string               `json:"availability_mode"`
		Availability     json.RawMessage      `json:"availability"`
		Components       map[string]component `json:"components"`
	}
	_ = json.Unmarshal(s.fill(stationDocument, st.ID, 0), &device)
	device.Device["name"] = stationName(st)
	if firmware := s.Stations.Firmware(st.ID); firmware != "" {
		device.Device["sw_version"] = firmware
	}
	if url := s.pages(); url != "" {
		device.Device["configuration_url"] = url + "/#/station/" + st.ID.String()
	}
	all := device.Components
	all["battery"] = only(now.BatteryVoltage != nil, all["battery"])
	all["voltage"] = only(now.BatteryVoltage != nil, all["voltage"])
	all["event"]["event_types"] = eventTypes()
	opens := s.opens(st)
	for i, lock := range now.Locks {
		var parts map[string]component
		_ = json.Unmarshal(s.fill(lockDocument, st.ID, i+1), &parts)
		reports := !lock.LastUpdated.IsZero()
		there := map[string]bool{"lock": reports && opens, "button": !reports && opens, "status": reports && !opens, "door": lock.Door != ""}
		for kind, c := range parts {
			all[fmt.Sprintf("%s_%d", kind, i+1)] = only(there[kind], c)
		}
	}
	return encode(device)
}

// gatewayConfig returns the discovery of the gateway's own device.
func (l *Link) gatewayConfig() []byte {
	var document map[string]any
	_ = json.Unmarshal(l.fill(gatewayDocument, 0, 0), &document)
	if url := l.pages(); url != "" {
		document["device"].(map[string]any)["configuration_url"] = url
	}
	return encode(document)
}

// pages returns where the console is found; "" where that is not known.
func (l *Link) pages() string {
	if l.Pages == nil {
		return ""
	}
	return l.Pages()
}

func stationName(st site.Station) string {
	if st.Name == "" {
		return "Station " + st.ID.String()
	}
	return st.Name
}

// formOf returns what the discovery of a station depends on: its enrolment, what it has ever
// reported, and where the console is.
func (s *session) formOf(st site.Station, now site.StationState) string {
	form := fmt.Sprintf("%q %s %v %q %s", st.Name, st.HomeAssistant, now.BatteryVoltage != nil, s.Stations.Firmware(st.ID), s.pages())
	for _, lock := range now.Locks {
		form += fmt.Sprint(!lock.LastUpdated.IsZero(), lock.Door != "")
	}
	return form
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
		if o, under := s.opening[doorway{now.ID, lock.ID.String()}]; under && time.Since(o.since) < openingLife {
			state.Locks[i].State = unlocking
		}
	}
	return string(encode(state))
}

// unlockFailed is the type of the event of an unlock that opened nothing, so that no
// automation takes it for a door that opened.
const unlockFailed site.Kind = "unlock-failed"

// eventTypes lists the types of events: what happens at doors.
func eventTypes() []site.Kind {
	return []site.Kind{
		site.KindUnlock, unlockFailed, site.KindDenied, site.KindNotOpened, site.KindDoorOpened, site.KindDoorClosed, site.KindDoorForced, site.KindDoorHeld,
		site.KindLeftUnlocked, site.KindStationSilent, site.KindRefusedOften, site.KindBatteryLow,
	}
}

func isEvent(r site.Record) bool {
	return slices.Contains(eventTypes(), r.Kind) && r.Outcome != site.Requested
}

// typeOf returns the type of a record's event. A door that opened late has opened.
func typeOf(r site.Record) site.Kind {
	late := r.Outcome == site.Late && r.Answer == string(site.Done)
	if r.Kind == site.KindUnlock && !r.Outcome.Opened() && !late {
		return unlockFailed
	}
	return r.Kind
}

// eventOf returns a record as Home Assistant's event, with who it was.
func eventOf(r site.Record) []byte {
	return encode(struct {
		Type    site.Kind      `json:"event_type"`
		Seq     uint64         `json:"seq"`
		Time    site.Timestamp `json:"time"`
		Lock    string         `json:"lock,omitempty"`
		Actor   string         `json:"actor,omitempty"`
		Origin  site.Origin    `json:"origin,omitempty"`
		Outcome site.Outcome   `json:"outcome,omitempty"`
		Detail  string         `json:"detail,omitempty"`
	}{typeOf(r), r.Seq, r.Time, r.Lock, cmp.Or(r.Doer(), string(r.Email)), r.Origin, r.Outcome, r.Detail})
}

// encode returns v as JSON; what it is given here can always be encoded.
func encode(v any) []byte {
	text, _ := json.Marshal(v)
	return text
}
