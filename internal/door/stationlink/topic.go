package stationlink

import "gatehouse/internal/site"

// Topics are those of one station, and all that it may use (contract, section 2).
type Topics struct {
	Command        string // to the station: it may subscribe to it
	report, result string // from the station: it may publish to them
}

// TopicsOf returns the topics of a station.
func TopicsOf(id site.StationID) Topics {
	stem := "stations/" + id.String() + "/"
	return Topics{Command: stem + "command", report: stem + "report", result: stem + "result"}
}

// MayPublish reports whether the station may publish to that topic.
func (t Topics) MayPublish(topic string) bool { return topic == t.report || topic == t.result }
