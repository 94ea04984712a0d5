package link_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/site"
)

// states returns what came in of one station: its voltages, "-" for a removal.
func (p *parts) states(id site.StationID) string {
	var all []string
	for _, m := range p.on(api.StateLeaf) {
		if m.Topic != api.StateTopic(gatewayID, id) {
			continue
		}
		if !m.Retained || m.QoS != 1 {
			return "not retained at QoS 1"
		}
		var state site.StationState
		if len(m.Payload) == 0 {
			all = append(all, "-")
		} else if err := json.Unmarshal(m.Payload, &state); err != nil || state.BatteryVoltage == nil {
			return "damaged: " + string(m.Payload)
		} else {
			all = append(all, fmt.Sprint(*state.BatteryVoltage))
		}
	}
	return strings.Join(all, " ")
}

// Every state once at the start, then what changes, at most once a second and the
// newest at last.
func TestMirror_coalesces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		for id := range site.StationID(100) {
			h.change(id+1, 3)
		}
		p := run(t, h, link.Settings{})
		time.Sleep(1500 * time.Millisecond)
		if n := len(p.on(api.StateLeaf)); n != 100 {
			t.Fatalf("%d states at the start", n)
		}
		for i := range 1000 { // in 5 s
			h.change(7, float64(i))
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		got := strings.Fields(p.states(7))
		if len(got) < 5 || len(got) > 8 || got[len(got)-1] != "999" {
			t.Errorf("got %s", got)
		}
		var last time.Time
		for _, m := range p.on(api.StateLeaf) {
			if m.Topic == api.StateTopic(gatewayID, 7) {
				if m.at.Sub(last) < time.Second {
					t.Errorf("%s after the one before", m.at.Sub(last))
				}
				last = m.at
			}
		}
		if p.states(8) != "3" {
			t.Errorf("another station: %s", p.states(8))
		}
	})
}

// After a reconnect the picture is whole again.
func TestMirror_reconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.change(1, 3)
		h.change(2, 3)
		p := run(t, h, link.Settings{})
		synctest.Wait()
		p.set(func() { p.refuse = errors.New("away") })
		p.cut()
		time.Sleep(time.Minute)
		h.change(2, 4)
		p.set(func() { p.refuse = nil })
		time.Sleep(10 * time.Minute)
		if p.states(1) != "3 3" || p.states(2) != "3 4" {
			t.Errorf("%s; %s", p.states(1), p.states(2))
		}
	})
}

// A station that is removed leaves nothing retained, whether the link is up, down, or
// the gateway restarts meanwhile; one that is enrolled is mirrored without an event.
func TestMirror_removal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		for id := range site.StationID(3) {
			h.change(id+1, 3)
		}
		p := run(t, h, link.Settings{})
		synctest.Wait()
		h.set(func() { delete(h.stations, 1) })
		time.Sleep(time.Second)
		if p.states(1) != "3 -" {
			t.Errorf("removed while the link is up: %s", p.states(1))
		}
		p.set(func() { p.refuse = errors.New("away") })
		p.cut()
		h.set(func() { delete(h.stations, 2) })
		time.Sleep(time.Minute)
		p.set(func() { p.refuse = nil })
		time.Sleep(10 * time.Minute)
		if p.states(2) != "3 -" {
			t.Errorf("removed while the link is down: %s", p.states(2))
		}
		p.stop()
		h.set(func() { delete(h.stations, 3) })
		q := run(t, h, link.Settings{})
		synctest.Wait()
		if q.states(3) != "-" || q.states(1) != "" {
			t.Errorf("removed while nothing ran: %s; long gone: %s", q.states(3), q.states(1))
		}
		h.set(func() {
			volts := 5.0
			h.stations[9] = site.StationState{ID: 9, BatteryVoltage: &volts}
		})
		time.Sleep(time.Minute)
		if q.states(9) != "5" {
			t.Errorf("enrolled: %s", q.states(9))
		}
		h.set(func() { delete(h.stations, 9) })
		time.Sleep(time.Second)
		if len(h.listed()) != 0 {
			t.Errorf("kept %v", h.listed())
		}
	})
}

// A removal that the broker has not acknowledged is made again.
func TestMirror_removalLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.change(1, 3)
		p := run(t, h, link.Settings{})
		synctest.Wait()
		p.set(func() { p.mute = true })
		h.set(func() { delete(h.stations, 1) })
		time.Sleep(time.Second)
		p.cut()
		p.set(func() { p.mute = false })
		time.Sleep(time.Minute)
		if p.states(1) != "3 - -" {
			t.Errorf("got %s", p.states(1))
		}
	})
}

// A station that is removed a moment after it was enrolled leaves nothing either.
func TestMirror_removedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		p := run(t, h, link.Settings{})
		synctest.Wait()
		h.change(7, 3)
		time.Sleep(2 * time.Second)
		h.set(func() { delete(h.stations, 7) })
		time.Sleep(time.Second)
		if p.states(7) != "3 -" {
			t.Errorf("got %s", p.states(7))
		}
	})
}

// What is retained of a station that the gateway does not know, such as one enrolled after the
// backup that was restored, is removed; nothing else is. Once nothing is found, no connection
// searches again.
func TestMirror_unknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.change(1, 3)
		p := run(t, h, link.Settings{})
		synctest.Wait()
		filter := "gateways/" + string(gatewayID) + "/stations/+/state"
		searches := func() bool { return slices.Contains(p.present().Optional, filter) }
		if !searches() {
			t.Fatalf("subscribed to %v", p.present().Optional)
		}
		other := api.StateTopic("another", 9)
		for topic, payload := range map[string]string{
			api.StateTopic(gatewayID, 1): "{}", api.StateTopic(gatewayID, 7): "{}", api.StateTopic(gatewayID, 8): "", other: "{}",
		} {
			p.present().Receive(mqttclient.Message{Topic: topic, Payload: []byte(payload), Retained: true})
		}
		p.present().Receive(mqttclient.Message{Topic: api.StateTopic(gatewayID, 6), Payload: []byte("{}")}) // said now
		synctest.Wait()
		if p.states(7) != "-" || p.states(1) != "3" || p.states(6)+p.states(8) != "" || len(h.listed()) != 1 {
			t.Errorf("%q; known: %q; others: %q %q, kept %v", p.states(7), p.states(1), p.states(6), p.states(8), h.listed())
		}
		time.Sleep(2 * time.Minute)
		p.set(func() {
			if !slices.Equal(p.ended, []string{filter}) {
				t.Errorf("ended %v", p.ended)
			}
		})
		p.cut()
		time.Sleep(2 * time.Minute)
		if !searches() {
			t.Error("what was found may be there still")
		}
		p.cut()
		time.Sleep(2 * time.Minute)
		if searches() {
			t.Error("it searches although there is nothing")
		}
	})
}

// A broker that makes stations up takes no memory without bound, and keeps no state back.
func TestMirror_unknownFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		p := run(t, h, link.Settings{}, func(p *parts) { p.mute = true })
		synctest.Wait()
		for id := range site.StationID(100_000) {
			p.present().Receive(mqttclient.Message{Topic: api.StateTopic(gatewayID, id+1), Payload: []byte("{}"), Retained: true})
		}
		p.set(func() { p.mute = false })
		for range 100 {
			p.confirmOldest()
			synctest.Wait()
		}
		if n := len(p.on(api.StateLeaf)); n == 0 || n > 5000 {
			t.Errorf("removed %d", n)
		}
		h.change(1, 3)
		time.Sleep(time.Second)
		if got := p.states(1); !strings.HasSuffix(got, "3") {
			t.Errorf("a state after that: %q", got)
		}
	})
}

// A broker that ends the connection of a gateway that subscribes to its own states is not
// asked for that again; a copy of the gateway is still detected.
func TestMirror_noRightToItsOwnStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, newHouse(), link.Settings{}, func(p *parts) {
			p.dialling = func(cfg mqttclient.Config) error {
				if len(cfg.Optional) > 1 {
					return &mqttclient.DialError{Step: mqttclient.StepSubscribe, Err: mqttclient.ErrHungUp}
				}
				return nil
			}
		})
		time.Sleep(time.Minute)
		if n := len(p.attempts()); n != 2 || len(p.present().Optional) != 1 {
			t.Errorf("%d attempts, subscribed also to %v", n, p.present().Optional)
		}
	})
}

// A disk that fails for a while, at whatever moment, does not let the list of the states
// that stand at the broker be lost.
func TestMirror_diskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		h.there = []site.StationID{7}
		h.broken = true
		p := run(t, h, link.Settings{})
		synctest.Wait()
		h.change(8, 3)
		time.Sleep(time.Minute)
		h.set(func() { h.broken = false })
		time.Sleep(time.Minute)
		if fmt.Sprint(h.listed()) != "[8]" || p.states(7) != "-" || p.states(8) != "3" {
			t.Errorf("kept %v; %q and %q", h.listed(), p.states(7), p.states(8))
		}
		h.set(func() { h.broken = true })
		h.change(9, 3)
		time.Sleep(time.Minute)
		h.set(func() { h.broken = false })
		time.Sleep(time.Minute)
		if fmt.Sprint(h.listed()) != "[8 9]" {
			t.Errorf("kept %v", h.listed())
		}
	})
}
