package cloudtail

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

// item is what stands on the topic of the journal: a record, or a gap in the place of
// several.
type item struct {
	from, to uint64
	boot     site.BootID  // "" of a gap
	record   *site.Record // nil of a gap
	payload  []byte
}

// parseItem reads a payload of the journal.
func parseItem(payload []byte) (item, error) {
	record, err := parseRecord(payload)
	if err != nil {
		return item{}, err
	}
	if record.Kind == site.KindGap && record.Boot == "" {
		if record.From < 1 || record.From > record.To || record.To != record.Seq {
			return item{}, fmt.Errorf("a gap from %d to %d as record %d", record.From, record.To, record.Seq)
		}
		return item{from: record.From, to: record.To, payload: payload}, nil
	}
	return item{from: record.Seq, to: record.Seq, boot: record.Boot, record: record, payload: payload}, nil
}

func parseRecord(payload []byte) (*site.Record, error) {
	var record site.Record
	if err := json.Unmarshal(payload, &record); err != nil {
		return nil, fmt.Errorf("reading a record: %w", err)
	}
	if record.Seq == 0 || record.Kind == "" {
		return nil, errors.New("a record without a seq or a kind")
	}
	if record.Seq > math.MaxInt64 {
		return nil, fmt.Errorf("a record with the seq %d, which no journal reaches", record.Seq)
	}
	return &record, nil
}

// decode reads what is not of the journal's topic.
func decode(m mqttclient.Message, at api.Address) (Event, error) {
	e := Event{Gateway: at.Gateway, Station: at.Station, Retained: m.Retained, Payload: m.Payload}
	var into any
	switch at.Leaf {
	case api.StatusLeaf:
		e.Kind, e.Status = Status, new(api.Status)
		into = e.Status
	case api.ResultLeaf:
		e.Kind, e.Result = Result, new(api.Result)
		into = e.Result
	case api.LiveLeaf:
		record, err := parseRecord(m.Payload)
		e.Kind, e.Record = Live, record
		return e, err
	case api.StateLeaf:
		if len(m.Payload) == 0 {
			e.Kind, e.Payload = Removed, nil
			return e, nil
		}
		e.Kind, e.State = State, new(site.StationState)
		into = e.State
	default:
		return e, errors.New("it is for gateways")
	}
	if err := json.Unmarshal(m.Payload, into); err != nil {
		return e, fmt.Errorf("reading a %s: %w", e.Kind, err)
	}
	return e, nil
}
