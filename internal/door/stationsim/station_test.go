package stationsim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"gatehouse/internal/door/stationsim"
)

const unlock = `{"id":"c-1","command":"unlock","lockId":"lock-1","ttl":5}`

// after lets the fake clock of the bubble advance.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func wantKinds(t *testing.T, events *journal, want ...stationsim.Kind) {
	t.Helper()
	if got := events.kinds(); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// lockStatus returns what the latest report says of a lock.
func lockStatus(t *testing.T, b *pipeBroker, lock int) any {
	t.Helper()
	reports := b.reports()
	if len(reports) == 0 {
		t.Fatal("no report")
	}
	return reports[len(reports)-1]["locks"].([]any)[lock-1].(map[string]any)["status"]
}

func TestStation_Run_connectsAsTheContractSays(t *testing.T) {
	play(t, nil, func(b *pipeBroker, s *stationsim.Station, events *journal) {
		connect := b.packets()[0].(*packets.ConnectPacket)
		if connect.ClientIdentifier != "station-7" || connect.Username != "station-7" ||
			string(connect.Password) != "ABCDEFGHIJKLMNOPQRSTUVWXYZ" {
			t.Errorf("connected as %q, user %q", connect.ClientIdentifier, connect.Username)
		}
		if !connect.CleanSession || connect.WillFlag || connect.ProtocolVersion != 4 || connect.Keepalive != 30 {
			t.Errorf("CONNECT %v: want a clean session of MQTT 3.1.1 without a will", connect)
		}
		if first := b.packets()[1].(*packets.PublishPacket); first.TopicName != "stations/7/report" || first.Qos != 1 {
			t.Errorf("the first report goes to %s at QoS %d", first.TopicName, first.Qos)
		}
		subscribe := b.packets()[2].(*packets.SubscribePacket)
		if subscribe.Topics[0] != "stations/7/command" || subscribe.Qoss[0] != 1 {
			t.Errorf("subscribed to %v at QoS %v", subscribe.Topics, subscribe.Qoss)
		}
		if got := len(b.reports()); got != 2 {
			t.Fatalf("%d reports at connect, want the uptime and the state", got)
		}
		for _, r := range b.reports() {
			if uptime, ok := r["uptime"].(float64); !ok || uptime < 0 || uptime > 3600_000 {
				t.Errorf("uptime %v", r["uptime"])
			}
		}
		if volts := b.reports()[1]["batteryVoltage"].(float64); volts < 3.6 || volts > 4.15 {
			t.Errorf("battery %v V", volts)
		}
		wantKinds(t, events, stationsim.Connected)
		if !s.Status().Connected {
			t.Error("the status does not say connected")
		}
	})
}

func TestStation_Run_opensAndLocksAgain(t *testing.T) {
	play(t, nil, func(b *pipeBroker, s *stationsim.Station, events *journal) {
		id := b.command(unlock)
		if !b.acknowledged(id) {
			t.Error("the command was not acknowledged at once")
		}
		if len(b.results()) != 0 {
			t.Error("a result before the motor has run")
		}
		after(300 * time.Millisecond)
		if r := b.results(); len(r) != 1 || r[0]["id"] != "c-1" || r[0]["result"] != "done" || r[0]["lockId"] != "lock-1" || r[0]["status"] != "unlocked" {
			t.Errorf("results %v", r)
		}
		if lockStatus(t, b, 1) != "unlocked" || lockStatus(t, b, 2) != "locked" {
			t.Error("the report after opening does not say so")
		}
		if st := s.Status(); st.Opened != 1 {
			t.Errorf("status %+v", st)
		}
		after(5 * time.Second)
		if lockStatus(t, b, 1) != "locked" {
			t.Error("the lock did not lock again")
		}
		wantKinds(t, events, stationsim.Connected, stationsim.Received, stationsim.Opened, stationsim.Relocked)
	})
}

// A person opens the door a second after an unlock, and it closes again; a second unlock
// meanwhile keeps it open for longer.
func TestStation_Run_doors(t *testing.T) {
	sensors := func(cfg *stationsim.Config, _ *pipeBroker) { cfg.DoorOpen = 4 * time.Second }
	play(t, sensors, func(b *pipeBroker, _ *stationsim.Station, events *journal) {
		door := func() any { return b.reports()[len(b.reports())-1]["locks"].([]any)[0].(map[string]any)["door"] }
		if door() != "closed" {
			t.Errorf("a new door is %v", door())
		}
		b.command(unlock)
		after(1300 * time.Millisecond)
		if door() != "open" {
			t.Errorf("a second after the unlock the door is %v", door())
		}
		b.command(strings.Replace(unlock, "c-1", "c-2", 1))
		after(4 * time.Second)
		if door() != "open" {
			t.Errorf("a second person has opened the door, which is %v", door())
		}
		after(1500 * time.Millisecond)
		if door() != "closed" {
			t.Errorf("behind the second person the door is %v", door())
		}
		count := func(k stationsim.Kind) (n int) {
			for _, got := range events.kinds() {
				if got == k {
					n++
				}
			}
			return n
		}
		if count(stationsim.DoorOpened) != 1 || count(stationsim.DoorClosed) != 1 {
			t.Errorf("events %v", events.kinds())
		}
	})
}

func TestStation_Run_actsOnOneIDOnce(t *testing.T) {
	play(t, nil, func(b *pipeBroker, s *stationsim.Station, events *journal) {
		b.command(unlock)
		after(300 * time.Millisecond)
		after(5 * time.Second)
		again := b.command(unlock)
		after(time.Second)
		if s.Status().Opened != 1 || lockStatus(t, b, 1) != "locked" {
			t.Error("the same command id opened the lock twice")
		}
		if !b.acknowledged(again) || len(b.results()) != 2 {
			t.Error("the repeated command was not answered as before")
		}
		wantKinds(t, events, stationsim.Connected, stationsim.Received, stationsim.Opened,
			stationsim.Relocked, stationsim.Received, stationsim.Repeated)
	})
}

// A command that waits behind others for the motor must not open the door after
// its time.
func TestStation_Run_ignoresWhatGrewOldInItsQueue(t *testing.T) {
	slowMotor := func(cfg *stationsim.Config, _ *pipeBroker) { cfg.Actuation = 2 * time.Second }
	play(t, slowMotor, func(b *pipeBroker, s *stationsim.Station, events *journal) {
		b.command(unlock)
		second := b.command(strings.Replace(unlock, "c-1", "c-2", 1))
		if b.acknowledged(second) {
			t.Error("a command was acknowledged before the motor was free for it")
		}
		b.command(strings.Replace(unlock, "c-1", "c-3", 1)) // its motion would end after 6 s
		refusedFirst(t, b, "c-3")
		after(2 * time.Second)
		if !b.acknowledged(second) {
			t.Error("the queued command was not acknowledged when the motor was free")
		}
		after(20 * time.Second)
		if s.Status().Opened != 2 {
			t.Errorf("opened %d times, want twice", s.Status().Opened)
		}
		if got := events.list(); !slices.Contains(events.kinds(), stationsim.Expired) {
			t.Errorf("events %+v: want expired", got)
		}
	})
}

// However many people unlock one lock at a time, none finds it open after the deadline, and
// each command that was acknowledged has opened it.
func TestStation_Run_opensNothingLate(t *testing.T) {
	play(t, nil, func(b *pipeBroker, s *stationsim.Station, _ *journal) {
		const commands = 30
		acknowledged := 0
		var ids []uint16
		for n := range commands {
			ids = append(ids, b.command(strings.Replace(unlock, "c-1", fmt.Sprintf("c-%d", n), 1)))
		}
		after(5 * time.Second)
		inTime := s.Status().Opened
		after(time.Minute)
		for _, id := range ids {
			if b.acknowledged(id) {
				acknowledged++
			}
		}
		if got := s.Status().Opened; got != 16 || inTime != 16 { // of 300 ms each in 5 s
			t.Errorf("opened %d times, %d of them in time", got, inTime)
		}
		refused := 0
		for _, r := range b.results() {
			if r["result"] == "refused" {
				refused++
			}
		}
		if refused != commands-16 || acknowledged != commands {
			t.Errorf("%d refused, %d acknowledged", refused, acknowledged)
		}
	})
}

func TestStation_Run_slowBeyondTTLStaysShut(t *testing.T) {
	slow := func(cfg *stationsim.Config, _ *pipeBroker) { cfg.Faults.Slow = 6 * time.Second }
	play(t, slow, func(b *pipeBroker, s *stationsim.Station, events *journal) {
		b.command(unlock)
		after(10 * time.Second)
		if s.Status().Opened != 0 {
			t.Error("a command older than its ttl was acted upon")
		}
		refusedFirst(t, b, "c-1")
		wantKinds(t, events, stationsim.Connected, stationsim.Received, stationsim.Expired)
	})
}

// refusedFirst wants the command's result to be "refused", and the command to be
// acknowledged behind it.
func refusedFirst(t *testing.T, b *pipeBroker, id string) {
	t.Helper()
	synctest.Wait()
	refused := false
	var command uint16
	for _, packet := range b.packets() {
		switch p := packet.(type) {
		case *packets.PublishPacket:
			refused = refused || p.TopicName == "stations/7/result" && strings.Contains(string(p.Payload), `"id":"`+id+`","result":"refused"`)
		case *packets.PubackPacket:
			if command = p.MessageID; command == b.next && !refused {
				t.Error("acknowledged before it was refused")
			}
		}
	}
	if !refused || command != b.next {
		t.Errorf("%s: refused %t, the last acknowledged is %d of %d", id, refused, command, b.next)
	}
}

// Where a command says until when in the station's own uptime, that alone decides.
func TestStation_Run_notAfterDecides(t *testing.T) {
	for name, c := range map[string]struct {
		wait     time.Duration // before it is acted upon
		ttl      int
		notAfter int
		opens    bool
	}{
		"fresh":               {0, 5, 1000, true},
		"to the millisecond":  {700 * time.Millisecond, 5, 1000, true}, // the motor runs for 300 ms
		"past":                {701 * time.Millisecond, 5, 1000, false},
		"past on arrival":     {0, 5, -1, false},
		"longer than its ttl": {3 * time.Second, 1, 4000, true},
	} {
		t.Run(name, func(t *testing.T) {
			const age = 40 * time.Hour
			own := func(cfg *stationsim.Config, _ *pipeBroker) {
				cfg.Faults.Slow = c.wait
				begun := time.Now()
				cfg.Uptime = func() time.Duration { return age + time.Since(begun) }
			}
			play(t, own, func(b *pipeBroker, s *stationsim.Station, _ *journal) {
				b.command(fmt.Sprintf(`{"id":"c-1","command":"unlock","lockId":"lock-1","ttl":%d,"notAfter":%d}`,
					c.ttl, int(age.Milliseconds())+c.notAfter))
				after(5 * time.Second)
				if opened := s.Status().Opened == 1; opened != c.opens {
					t.Errorf("opened: %t", opened)
				}
				if !c.opens {
					refusedFirst(t, b, "c-1")
				}
			})
		})
	}
}

func TestStation_Run_slowWithinTTL(t *testing.T) {
	slow := func(cfg *stationsim.Config, _ *pipeBroker) { cfg.Faults.Slow = 2 * time.Second }
	play(t, slow, func(b *pipeBroker, s *stationsim.Station, _ *journal) {
		id := b.command(unlock)
		after(1999 * time.Millisecond)
		if b.acknowledged(id) {
			t.Error("acknowledged too early")
		}
		after(time.Millisecond)
		if !b.acknowledged(id) {
			t.Error("not acknowledged when the wait was over")
		}
		after(300 * time.Millisecond)
		if s.Status().Opened != 1 {
			t.Error("did not open")
		}
	})
}

// What was not acknowledged dies with its connection, on this side too.
func TestStation_Run_forgetsUnacknowledgedWithTheConnection(t *testing.T) {
	slow := func(cfg *stationsim.Config, _ *pipeBroker) { cfg.Faults.Slow = 2 * time.Second }
	play(t, slow, func(b *pipeBroker, s *stationsim.Station, events *journal) {
		b.command(unlock)
		_ = b.conn().Close()
		after(4 * time.Second)
		if s.Status().Opened != 0 {
			t.Error("a command given up with its connection opened the lock")
		}
		if !slices.Contains(events.kinds(), stationsim.Dropped) {
			t.Errorf("events %v: want dropped", events.kinds())
		}
	})
}

func TestStation_Run_drops(t *testing.T) {
	dropping := func(cfg *stationsim.Config, _ *pipeBroker) { cfg.Faults.Drop = 1 }
	play(t, dropping, func(b *pipeBroker, s *stationsim.Station, events *journal) {
		id := b.command(unlock)
		after(10 * time.Second)
		if b.acknowledged(id) || s.Status().Opened != 0 {
			t.Error("a dropped command was acknowledged or acted upon")
		}
		wantKinds(t, events, stationsim.Connected, stationsim.Received, stationsim.Dropped)
	})
}

// A dropped command was never seen: its id is new when it is repeated.
func TestStation_Run_dropsSome(t *testing.T) {
	dropping := func(cfg *stationsim.Config, _ *pipeBroker) { cfg.Faults.Drop = 0.5 }
	play(t, dropping, func(b *pipeBroker, s *stationsim.Station, _ *journal) {
		sent := 0
		for ; s.Status().Opened == 0 && sent < 100; sent++ {
			b.command(unlock)
			after(time.Second)
		}
		if s.Status().Opened != 1 {
			t.Errorf("opened %d times after %d commands", s.Status().Opened, sent)
		}
	})
}

func TestStation_Run_jams(t *testing.T) {
	jamming := func(cfg *stationsim.Config, _ *pipeBroker) { cfg.Faults.Jam = 1 }
	play(t, jamming, func(b *pipeBroker, _ *stationsim.Station, events *journal) {
		b.command(unlock)
		after(20 * time.Second)
		if r := b.results(); len(r) != 1 || r[0]["result"] != "failed" || r[0]["status"] != "jammed" {
			t.Errorf("results %v", r)
		}
		if lockStatus(t, b, 1) != "jammed" {
			t.Error("the lock is not reported jammed")
		}
		wantKinds(t, events, stationsim.Connected, stationsim.Received, stationsim.Jammed)
	})
}

func TestStation_Run_declines(t *testing.T) {
	for name, c := range map[string]struct {
		payload string
		refused bool // else nothing can be said of it, and an acknowledgement would be a success
	}{
		"unknown lock":    {`{"id":"c-1","command":"unlock","lockId":"lock-3","ttl":5}`, true},
		"no lock":         {`{"id":"c-1","command":"unlock","ttl":5}`, true},
		"unknown command": {`{"id":"c-1","command":"dance","lockId":"lock-1","ttl":5}`, true},
		"no id":           {`{"command":"unlock","lockId":"lock-1","ttl":5}`, false},
		"not JSON":        {`unlock please`, false},
		"wrong type":      {`{"id":17,"command":"unlock","lockId":"lock-1"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(b *pipeBroker, s *stationsim.Station, events *journal) {
				id := b.command(c.payload)
				after(time.Second)
				if s.Status().Opened != 0 {
					t.Error("opened")
				}
				if c.refused {
					refusedFirst(t, b, "c-1")
				} else if b.acknowledged(id) {
					t.Error("acknowledged what it has not done")
				}
				if !slices.Contains(events.kinds(), stationsim.Declined) {
					t.Errorf("events %v: want declined", events.kinds())
				}
			})
		})
	}
}

func TestStation_Run_comesBack(t *testing.T) {
	play(t, nil, func(b *pipeBroker, s *stationsim.Station, events *journal) {
		b.command(unlock)
		after(time.Second)
		_ = b.conn().Close()
		synctest.Wait()
		if s.Status().Connected {
			t.Error("still says connected")
		}
		after(10 * time.Second) // the lock locks again while there is no connection, or after
		if !s.Status().Connected || b.connects() != 2 {
			t.Errorf("not connected again after %d attempts", b.connects())
		}
		if lockStatus(t, b, 1) != "locked" {
			t.Error("the state after the reconnection was not reported")
		}
		if got := events.kinds(); !slices.Contains(got, stationsim.Disconnected) {
			t.Errorf("events %v", got)
		}
	})
}

func TestStation_Run_backsOffWhenRefused(t *testing.T) {
	refusing := func(_ *stationsim.Config, b *pipeBroker) { b.refuse = packets.ErrRefusedNotAuthorised }
	play(t, refusing, func(b *pipeBroker, _ *stationsim.Station, events *journal) {
		after(10 * time.Minute)
		// Pauses double from at most 0.25 s to at most 30 s: 7 until then, and one
		// every 15 to 30 s.
		if n := b.connects(); n < 20 || n > 60 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		if e := events.list()[0]; e.Kind != stationsim.Refused || !strings.Contains(e.Detail, "not Authorized") {
			t.Errorf("event %+v", e)
		}
	})
}

func TestStation_Run_noticesARefusedSubscription(t *testing.T) {
	refusing := func(_ *stationsim.Config, b *pipeBroker) { b.refused = true }
	play(t, refusing, func(_ *pipeBroker, s *stationsim.Station, events *journal) {
		if s.Status().Connected || events.list()[0].Kind != stationsim.Refused {
			t.Errorf("events %v: a SUBACK failure must not count as connected", events.kinds())
		}
	})
}

func TestStation_Run_reportsNowAndThen(t *testing.T) {
	play(t, nil, func(b *pipeBroker, _ *stationsim.Station, _ *journal) {
		after(10 * time.Minute) // one report every 30 to 60 s
		if n := len(b.reports()); n < 10 || n > 21 {
			t.Errorf("%d reports in ten minutes", n)
		}
	})
}

func TestStation_Run_batteryDrains(t *testing.T) {
	cell := func(cfg *stationsim.Config, _ *pipeBroker) {
		cfg.Drain = 0.10
	}
	play(t, cell, func(b *pipeBroker, _ *stationsim.Station, _ *journal) {
		volts := func() float64 { r := b.reports(); return r[len(r)-1]["batteryVoltage"].(float64) }
		full := volts()
		after(2 * time.Hour)
		if got := full - volts(); got < 0.18 || got > 0.21 {
			t.Errorf("%.2f V less after two hours, want 0.20", got)
		}
		after(12 * time.Hour)
		if got := volts(); got < 3.10 || got > full {
			t.Errorf("%.2f V: an empty battery was not changed", got)
		}
	})
}

// The memory of ids is bounded, so that a station with a few kilobytes can have it.
func TestStation_Run_forgetsTheOldestIDs(t *testing.T) {
	play(t, nil, func(b *pipeBroker, s *stationsim.Station, _ *journal) {
		open := func(n int) {
			b.command(strings.Replace(unlock, "c-1", fmt.Sprintf("c-%d", n), 1))
			after(300 * time.Millisecond)
		}
		for n := range 128 {
			open(n)
		}
		open(0)
		if got := s.Status().Opened; got != 128 {
			t.Errorf("opened %d times, want 128: the oldest of 128 ids is still known", got)
		}
		open(128)
		open(0)
		if got := s.Status().Opened; got != 130 {
			t.Errorf("opened %d times, want 130: beyond 128 ids the oldest is forgotten", got)
		}
	})
}
