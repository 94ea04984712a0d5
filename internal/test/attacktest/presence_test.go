package attacktest_test

import (
	"net"
	"sync"
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// A station reconnects again and again while its old connection ends by itself. The end
// of the old one could overtake the beginning of the new one and leave a live station
// "offline" until its next reconnect (14 of 325,152). Package stationlink has the same
// race made certain.
func TestAttack_presence(t *testing.T) {
	t.Parallel()
	rounds, stations := 40, 4
	if gatewaytest.Torture() {
		rounds, stations = 40_000, 8
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	var all sync.WaitGroup
	for id := site.StationID(1); int(id) <= stations; id++ {
		issued := p.Enrol(id)
		all.Go(func() {
			var old *gatewaytest.Station
			for range rounds {
				conn, err := net.Dial("tcp", p.MQTT)
				if err != nil {
					t.Error(err)
					return
				}
				if ending := old; ending != nil {
					all.Go(func() { _ = ending.Conn.Close() })
				}
				next := &gatewaytest.Station{T: t, Conn: conn, Login: issued.MQTT, Version: 4}
				if err := next.TryOpen(1); err != nil {
					t.Error(err)
					return
				}
				old = next
				if s, err := p.Admin.Station(t.Context(), id); err != nil || s.Status != site.Online {
					t.Errorf("station %s has a live connection and is %s (%v)", id, s.Status, err)
					return
				}
			}
			_ = old.Conn.Close()
		})
	}
	all.Wait()
	for id := site.StationID(1); int(id) <= stations; id++ {
		p.AwaitOnline(id, false)
	}
}
