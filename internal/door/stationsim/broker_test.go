package stationsim_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
)

// pipeBroker is the least of an MQTT broker, for one station inside a synctest
// bubble: it writes down what the station sends, and sends what the test says.
type pipeBroker struct {
	t       *testing.T
	refuse  byte // return code of the CONNACK
	refused bool // SUBACK 0x80

	mu    sync.Mutex // guards the fields below
	conns []net.Conn // in order of connection
	seen  []packets.ControlPacket
	next  uint16
}

// packets returns what the station has sent so far.
func (b *pipeBroker) packets() []packets.ControlPacket {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.seen)
}

// conn returns the latest connection.
func (b *pipeBroker) conn() net.Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conns[len(b.conns)-1]
}

// journal writes down the events of stations.
type journal struct {
	mu     sync.Mutex // guards events
	events []stationsim.Event
}

func (j *journal) note(e stationsim.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

func (j *journal) list() []stationsim.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events)
}

// kinds returns the kinds of the events other than reports.
func (j *journal) kinds() []stationsim.Kind {
	var out []stationsim.Kind
	for _, e := range j.list() {
		if e.Kind != stationsim.Reported {
			out = append(out, e.Kind)
		}
	}
	return out
}

// dial is the station's way to the broker.
func (b *pipeBroker) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns = append(b.conns, ours)
	go b.serve(ours)
	return theirs, nil
}

func (b *pipeBroker) serve(conn net.Conn) {
	defer conn.Close()
	for {
		packet, err := packets.ReadPacket(conn)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.seen = append(b.seen, packet)
		b.mu.Unlock()
		if b.answer(conn, packet) != nil {
			return
		}
	}
}

func (b *pipeBroker) answer(conn net.Conn, packet packets.ControlPacket) error {
	switch p := packet.(type) {
	case *packets.ConnectPacket:
		ack := packets.NewControlPacket(packets.Connack).(*packets.ConnackPacket)
		ack.ReturnCode = b.refuse
		return errors.Join(ack.Write(conn), asError(b.refuse != 0))
	case *packets.SubscribePacket:
		ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
		ack.MessageID, ack.ReturnCodes = p.MessageID, []byte{p.Qoss[0]}
		if b.refused {
			ack.ReturnCodes[0] = 0x80
		}
		return ack.Write(conn)
	case *packets.PublishPacket:
		if p.Qos == 0 {
			return nil
		}
		ack := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
		ack.MessageID = p.MessageID
		return ack.Write(conn)
	case *packets.PingreqPacket:
		return packets.NewControlPacket(packets.Pingresp).Write(conn)
	}
	return nil
}

func asError(is bool) error {
	if is {
		return net.ErrClosed
	}
	return nil
}

// command sends a command to the station and returns its packet id.
func (b *pipeBroker) command(payload string) uint16 {
	b.t.Helper()
	b.next++
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.Qos, p.MessageID, p.TopicName, p.Payload = 1, b.next, "stations/7/command", []byte(payload)
	if err := p.Write(b.conn()); err != nil {
		b.t.Errorf("sending a command: %v", err)
	}
	synctest.Wait()
	return b.next
}

// acknowledged reports whether the station has sent the PUBACK of id.
func (b *pipeBroker) acknowledged(id uint16) bool {
	for _, packet := range b.packets() {
		if ack, ok := packet.(*packets.PubackPacket); ok && ack.MessageID == id {
			return true
		}
	}
	return false
}

// published returns the JSON that the station published to topic, in order.
func (b *pipeBroker) published(topic string) []map[string]any {
	b.t.Helper()
	var out []map[string]any
	for _, packet := range b.packets() {
		p, ok := packet.(*packets.PublishPacket)
		if !ok || p.TopicName != topic {
			continue
		}
		if p.Retain {
			b.t.Errorf("a retained message to %s", topic)
		}
		var message map[string]any
		if err := json.Unmarshal(p.Payload, &message); err != nil {
			b.t.Fatalf("%s: %v", p.Payload, err)
		}
		out = append(out, message)
	}
	return out
}

func (b *pipeBroker) results() []map[string]any { return b.published("stations/7/result") }
func (b *pipeBroker) reports() []map[string]any { return b.published("stations/7/report") }

// connects counts the CONNECT packets.
func (b *pipeBroker) connects() (count int) {
	for _, packet := range b.packets() {
		if _, ok := packet.(*packets.ConnectPacket); ok {
			count++
		}
	}
	return count
}

// play runs station 7 against a pipeBroker in a synctest bubble until body
// returns; by then nothing of it may be left.
func play(t *testing.T, change func(*stationsim.Config, *pipeBroker), body func(*pipeBroker, *stationsim.Station, *journal)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &pipeBroker{t: t}
		events := &journal{}
		begun := time.Now()
		cfg := stationsim.Config{
			ID: 7, Locks: 2, Secret: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
			Broker:  stationsim.Broker{Address: "broker.test:1883", Dial: b.dial},
			OnEvent: events.note,
			Uptime:  func() time.Duration { return time.Since(begun) }, // of the bubble
		}
		if change != nil {
			change(&cfg, b)
		}
		station, err := stationsim.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- station.Run(ctx) }()
		synctest.Wait()
		body(b, station, events)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func stationID(n int) site.StationID { return site.StationID(n) }

// gatedBroker is dialled but never answers.
type gatedBroker struct {
	dialling atomic.Int64
	release  chan struct{}
}

func (g *gatedBroker) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	g.dialling.Add(1)
	select {
	case <-g.release:
	case <-ctx.Done():
	}
	return nil, ctx.Err()
}
