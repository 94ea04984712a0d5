package link_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/cloud/link"
	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// A station is given a few commands of the cloud at once, whatever the others have; the
// rest wait for these, each as long as it holds.
func TestCommands_handle_busyStation(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		hold := make(chan struct{})
		w.onUnlock = func(unlock.Request) { <-hold }
		for n := range 3 * link.MaxAtStation {
			w.send(c, fmt.Sprint(n))
		}
		if w.unlocks() != link.MaxAtStation || len(w.results) != 0 {
			t.Errorf("%d unlocks at once, answered %+v", w.unlocks(), w.results)
		}
		w.send(c, fmt.Sprint(2*link.MaxAtStation))
		if w.last().Reason != "repeated" {
			t.Errorf("a copy of one that waits: answered %+v", w.last())
		}
		w.sendTo(c, 1043, "elsewhere")
		if w.unlocks() != link.MaxAtStation+1 {
			t.Errorf("another station waits for this one: answered %+v", w.last())
		}
		<-time.After(29 * time.Second)
		if w.unlocks() != link.MaxAtStation+1 {
			t.Errorf("%d unlocks", w.unlocks())
		}
		close(hold)
		synctest.Wait()
		done := 0
		for _, r := range w.results {
			if r.Outcome == site.Done {
				done++
			}
		}
		if want := 3*link.MaxAtStation + 1; done != want || w.unlocks() != want {
			t.Errorf("%d of %d are done, by %d unlocks", done, want, w.unlocks())
		}
	})
}

// Who waits for a station longer than his command holds is told so by the unlock, which
// never begins one that is over.
func TestCommands_handle_busyStationForTooLong(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := w.commands()
		hold := make(chan struct{})
		w.onUnlock = func(req unlock.Request) {
			if w.Now().Before(req.Until) {
				<-hold
			}
		}
		for n := range link.MaxAtStation + 1 {
			w.send(c, fmt.Sprint(n))
		}
		<-time.After(30 * time.Second)
		synctest.Wait()
		if w.unlocks() != link.MaxAtStation+1 || len(w.results) != 1 {
			t.Errorf("%d unlocks, answered %+v", w.unlocks(), w.results)
		}
		close(hold)
	})
}

// A station that acknowledges and sends no results, as it may (contract, section 1), keeps
// commands of the cloud until their deadline; a local unlock finds a place beside them.
func TestCommands_handle_localUnlockBeside(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		wire := stationlink.New(anyone{}, metric.New(), slog.New(slog.DiscardHandler))
		if err := wire.Connected(hardware{link: wire}); err != nil {
			t.Fatal(err)
		}
		sent := 0
		call := func(origin site.Origin, id site.CommandID, accepted time.Time, wantResult bool) site.Outcome {
			cmd := site.Command{ID: id, Station: 1042, Lock: 1, Origin: origin, Deadline: accepted.Add(site.DefaultTTL)}
			return wire.Call(cmd, wantResult, departure(func() {
				if origin == site.Cloud {
					w.set(func() { sent++ })
				}
			}))
		}
		w.onUnlock = func(req unlock.Request) {
			if time.Until(req.Accepted.Add(site.DefaultTTL)) > 0 { // else package unlock does not call
				call(site.Cloud, site.CommandID(req.JTI), req.Accepted, req.WaitResult)
			}
		}
		c := w.commands()
		for n := range 64 {
			w.send(c, fmt.Sprint(n))
		}
		began := time.Now()
		if outcome := call(site.Local, "local", began, false); outcome != site.Acknowledged || time.Since(began) != 0 {
			t.Errorf("a local unlock beside commands of the cloud: %s after %s", outcome, time.Since(began))
		}
		if w.unlocks() != link.MaxAtStation {
			t.Errorf("%d commands of the cloud are under way", w.unlocks())
		}
		<-time.After(site.DefaultTTL)
		synctest.Wait()
		if w.unlocks() != 64 || len(w.results) != 64 || sent != link.MaxAtStation {
			t.Errorf("%d unlocks, %d of them sent, %d answers", w.unlocks(), sent, len(w.results))
		}
	})
}

// hardware is a station's connection that acknowledges every command.
type hardware struct {
	stationlink.Conn
	link *stationlink.Link
}

func (hardware) Station() site.StationID   { return 1042 }
func (hardware) Generation() uint64        { return 1 }
func (hardware) Number() site.ConnectionID { return 1 }
func (hardware) Remote() string            { return "192.0.2.1:1" }
func (hardware) ReceiveMaximum() int       { return 0 }
func (hardware) Subscribed() (byte, bool)  { return 1, true }

func (h hardware) Send(id uint16, _ byte, m stationlink.Message, _ time.Time) error {
	_, _, err := m.Payload(nil)
	go h.link.Acknowledged(h, id, 0)
	return err
}

// departure is one that may always leave; it is called when it does.
type departure func()

func (departure) MayLeave() bool { return true }
func (d departure) Left()        { d() }

// anyone lets every station in.
type anyone struct{ stationlink.Presence }

func (anyone) Connected(site.StationID, site.ConnectionID, uint64, string) error { return nil }
func (anyone) Heard(site.StationID)                                              {}
