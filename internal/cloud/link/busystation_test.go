package link_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/door/unlock"
	"gatehouse/internal/health"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// A station that acknowledges and sends no results, as it may (contract, section 1), keeps
// commands of the cloud until their deadline; a local unlock does not wait for them.
func TestCommands_handle_localUnlockBeside(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		wire := stationlink.New(anyone{}, &health.Registry{}, metric.New(), slog.New(slog.DiscardHandler))
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
		<-time.After(site.DefaultTTL)
		synctest.Wait()
		if w.unlocks() != 64 || len(w.results) != 64 || sent != 64 {
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
func (departure) NotSubscribed() {}
func (departure) Lost()          {}

// anyone lets every station in.
type anyone struct{ stationlink.Presence }

func (anyone) Connected(site.StationID, site.ConnectionID, uint64, string) error { return nil }
func (anyone) State(site.StationID) (state site.StationState, ok bool)           { return state, ok }
func (anyone) AnswersByResult(site.StationID) bool                               { return false }
func (anyone) Heard(site.StationID)                                              {}
