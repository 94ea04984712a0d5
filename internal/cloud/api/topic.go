package api

import (
	"strings"

	"gatehouse/internal/site"
)

// Leaf is the last part of a topic of a gateway.
type Leaf string

// The leaves below gateways/<gatewayId>/ (contract, section 3). Live is the gateway's
// own addition.
const (
	StatusLeaf  Leaf = "status"  // up, retained, also the last will
	JournalLeaf Leaf = "journal" // up, QoS 1: every record, in order of seq
	LiveLeaf    Leaf = "live"    // up, QoS 0: a record at once, while older ones still wait
	ResultLeaf  Leaf = "result"  // up, QoS 1: how a command ended
	CommandLeaf Leaf = "command" // down, QoS 1: a signed command
	AckLeaf     Leaf = "ack"     // down, QoS 1: what the application has taken
	StateLeaf   Leaf = "state"   // up, retained, QoS 1: of one station, see [StateTopic]
)

// Topic returns gateways/<gatewayId>/<leaf>.
func Topic(gateway site.GatewayID, leaf Leaf) string {
	return "gateways/" + string(gateway) + "/" + string(leaf)
}

// StateTopic returns gateways/<gatewayId>/stations/<id>/state.
func StateTopic(gateway site.GatewayID, station site.StationID) string {
	return "gateways/" + string(gateway) + "/stations/" + station.String() + "/state"
}

// StateFilter names the states of all stations of a gateway, or with "+" of all gateways.
func StateFilter(gateway site.GatewayID) string {
	return "gateways/" + string(gateway) + "/stations/+/state"
}

// Filters are the topics that an application subscribes to for one gateway, or with
// "+" for every one that it may see: everything that goes up.
func Filters(gateway site.GatewayID) []string {
	all := []string{StateFilter(gateway)}
	for _, leaf := range []Leaf{StatusLeaf, JournalLeaf, LiveLeaf, ResultLeaf} {
		all = append(all, Topic(gateway, leaf))
	}
	return all
}

// Address is what a topic names: a gateway, and what it carries.
type Address struct {
	Gateway site.GatewayID
	Leaf    Leaf
	Station site.StationID // of [StateLeaf], else 0
}

// ParseTopic takes a topic apart; false for any that is not of the contract.
func ParseTopic(topic string) (Address, bool) {
	parts := strings.Split(topic, "/")
	if len(parts) < 3 || parts[0] != "gateways" || parts[1] == "" {
		return Address{}, false
	}
	a := Address{Gateway: site.GatewayID(parts[1]), Leaf: Leaf(parts[2])}
	switch a.Leaf {
	case StatusLeaf, JournalLeaf, LiveLeaf, ResultLeaf, CommandLeaf, AckLeaf:
		return a, len(parts) == 3
	case "stations":
		if len(parts) == 5 && parts[4] == string(StateLeaf) {
			station, err := site.ParseStationID(parts[3])
			a.Leaf, a.Station = StateLeaf, station
			return a, err == nil
		}
	}
	return a, false
}
