package gateway_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// dialFrom connects to an address from another host.
func dialFrom(t *testing.T, h *gatewaytest.Host, address string) (conn net.Conn) {
	t.Helper()
	h.Do(func() {
		var err error
		if conn, err = new(net.Dialer).DialContext(await.Context(t), "tcp", address); err != nil {
			t.Errorf("dialling from the other host: %v", err)
		}
	})
	if conn == nil {
		t.FailNow()
	}
	return conn
}

// A station's link goes dead just before a command and comes back after the
// deadline: the station receives no command, ever. Clean and persistent sessions,
// MQTT 3.1.1 and 5.0, alone and with commands that wait behind the first.
func TestGateway_blackHole_noCommandComesLate(t *testing.T) {
	if !gatewaytest.InNamespaces(t) {
		return
	}
	h := gatewaytest.NewHost(t, 1)
	cfg := gatewaytest.Configure(t)
	cfg.MQTT.Listen = []string{h.Here + ":0"}
	cfg.Unlock.TTL = time.Second
	g := gatewaytest.Start(t, cfg)
	access, _ := g.Login()
	id := site.StationID(1042)
	for _, version := range []byte{4, 5} {
		for _, persist := range []bool{false, true} {
			t.Run(fmt.Sprintf("v%d persistent %v", version, persist), func(t *testing.T) {
				id++
				reload(t, g, cfg, nil)
				issued := g.Enrol(id)
				station := connectFrom(t, h, g, issued, version, persist)
				g.AwaitOnline(id, true)

				h.Vanish()
				// Where a machine needs the time of a command to record it, nothing is sent, and the
				// station stays online.
				g.Await("the gateway ends the connection", func() bool {
					if g.Unlock(access, issued.StationToken) {
						t.Fatal("unlocked through a dead link")
					}
					state, err := g.Admin.Station(t.Context(), id)
					return err == nil && state.Status == site.Offline
				})
				if state := socketTo(t, station.Conn.LocalAddr()); state != "" {
					t.Errorf("the kernel still has the connection, and what is in it: %s", state)
				}
				h.Return()

				// The gateway has reset the connection: its end, and no command, is all that
				// the station's own packet brings.
				if err := station.Ping(); err == nil {
					checkEnded(t, station)
				}
				// The first command on a new connection, with the same session, is the next one; this
				// one has time.
				patient := cfg
				patient.Unlock.TTL = time.Minute
				reload(t, g, patient, nil)
				again := connectFrom(t, h, g, issued, version, persist)
				g.AwaitOnline(id, true)
				opened := make(chan bool, 1)
				go func() { opened <- g.Unlock(access, issued.StationToken) }()
				c := again.Command()
				again.Ack(c)
				if !<-opened || c.Dup {
					t.Errorf("the next unlock: %+v", c)
				}
				g.AwaitRecord("the first ended expired and the second acknowledged", func(r site.Record) bool {
					return string(r.Command) == c.ID && r.Outcome == site.Acknowledged
				})
				// Where the process gets no turn at the deadline, the kernel may end the
				// connection first.
				var ended int
				for _, r := range g.Records() {
					if r.Station == id && (r.Outcome == site.Expired || r.Outcome == site.Failed) {
						ended++
						if string(r.Command) == c.ID {
							t.Error("the ended command's id came again")
						}
					}
				}
				if ended < 1 {
					t.Error("no unlock in the journal expired or failed")
				}
			})
		}
	}
}

// socketTo returns the kernel's line of our socket to a peer, or nothing when there is
// none: after a reset there is none, after any other end it goes on sending.
func socketTo(t *testing.T, peer net.Addr) string {
	t.Helper()
	table, err := os.ReadFile("/proc/thread-self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprintf(":%04X", peer.(*net.TCPAddr).Port)
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasSuffix(fields[2], port) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func connectFrom(t *testing.T, h *gatewaytest.Host, g *gatewaytest.Gateway, issued adminapi.IssuedStation, version byte, persist bool) *gatewaytest.Station {
	t.Helper()
	s := &gatewaytest.Station{T: t, Conn: dialFrom(t, h, g.MQTT), Login: issued.MQTT, Version: version, Persist: persist}
	s.Open(1)
	return s
}

// The control: without a reset, bytes written into the same hole do arrive once the
// link is back. So the test above can tell.
func TestBlackHole_control_bytesComeLateWithoutAReset(t *testing.T) {
	if !gatewaytest.InNamespaces(t) {
		return
	}
	h := gatewaytest.NewHost(t, 2)
	l, err := net.Listen("tcp", h.Here+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- conn
	}()
	station := dialFrom(t, h, l.Addr().String())
	defer func() { _ = station.Close() }()
	server := <-accepted
	h.Vanish()
	if _, err := server.Write([]byte("unlock")); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil { // in order, not by a reset
		t.Fatal(err)
	}
	h.Return()
	if err := station.SetReadDeadline(await.Deadline()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(station); err != nil || string(got) != "unlock" {
		t.Errorf("read %q, %v: the hole swallows bytes by itself, and the test that uses it proves nothing", got, err)
	}
}

// A station that is slow, but within the deadline, opens the door; others do not wait for it.
func TestGateway_slowStation_opensWithinTheDeadline(t *testing.T) {
	cfg := gatewaytest.Configure(t)
	cfg.Unlock.TTL = time.Minute // until the slowest disk has taken the record
	g := gatewaytest.Start(t, cfg)
	issued := g.Enrol(1042)
	access, _ := g.Login()
	station := g.Dial(issued.MQTT)
	other := g.Enrol(1043)
	go answerAll(g.Dial(other.MQTT))
	g.AwaitOnline(1042, true)
	g.AwaitOnline(1043, true)
	opened := make(chan bool, 1)
	go func() { opened <- g.Unlock(access, issued.StationToken) }()
	c := station.Command()
	if c.Command != "unlock" || c.LockID != "lock-1" || c.QoS != 1 || c.TTL < 1 || c.TTL > 60 {
		t.Errorf("command %+v", c)
	}
	for range 10 { // the station takes the time of ten doors
		if !g.Unlock(access, other.StationToken) {
			t.Error("the other door did not open")
		}
	}
	select {
	case <-opened:
		t.Error("answered before the station had acknowledged")
	default:
	}
	station.Ack(c)
	if !<-opened {
		t.Error("the door did not open")
	}
	station.Result(c, "done", "unlocked")
	g.AwaitRecord("the station's own result", func(r site.Record) bool {
		return string(r.Command) == c.ID && r.Outcome == site.Done
	})
}
