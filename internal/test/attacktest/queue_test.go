package attacktest_test

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
)

// A link stalls behind the gateway's socket (a queue discipline here, an access point in a
// house) with a command in its queue, and goes on after the deadline: the reset of the
// connection stands behind the command, which arrived 8 s after its request, with a whole
// ttl of 5. A station that obeys notAfter refuses it.
func TestAttack_queue(t *testing.T) {
	t.Parallel()
	need.Program(t, "tc")
	gatewaytest.Binary(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	hosts, rounds, longest := 2, 1, time.Second
	if gatewaytest.Torture() {
		hosts, rounds, longest = 40, 25, time.Minute
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{
		Env: []string{"GATEHOUSE_MQTT_LISTEN=0.0.0.0:0", "GATEHOUSE_UNLOCK_TTL=2s"},
	})
	p.AddAccount()
	access, _ := p.Login()
	_, port, err := net.SplitHostPort(p.MQTT)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	arrived := 0
	for n := range hosts {
		q := newQueue(t, p, n, port)
		all.Go(func() {
			for range rounds {
				if !q.round(access, longest) {
					break
				}
			}
			q.station.stop()
			s := q.station // which has ended
			if s.bare > 0 || s.twice > 0 {
				t.Errorf("%d commands without notAfter, %d came twice", s.bare, s.twice)
			}
			t.Logf("opened %d, refused %d, %d connections", len(s.opened), s.refused, s.lives)
			mu.Lock()
			arrived += s.refused
			mu.Unlock()
		})
	}
	all.Wait()
	if !t.Failed() && arrived == 0 {
		t.Error("no command came late: this proves nothing")
	}
}

// queue is a station behind a cable that can be stalled.
type queue struct {
	t       *testing.T
	p       *gatewaytest.Program
	host    *gatewaytest.Host
	id      site.StationID
	token   string
	station *obedient
}

const (
	flowing = "rate 1gbit burst 160000 limit 1000000"
	stalled = "rate 256bit burst 2000 limit 1000000"
)

func newQueue(t *testing.T, p *gatewaytest.Program, n int, port string) *queue {
	t.Helper()
	q := &queue{t: t, p: p, host: gatewaytest.NewHost(t, n), id: site.StationID(n + 1)}
	issued := p.Enrol(q.id)
	q.token = issued.StationToken
	q.host.Shape(flowing)
	q.station = newObedient(t, issued.MQTT, func() (conn net.Conn, err error) {
		q.host.Do(func() { conn, err = net.Dial("tcp", net.JoinHostPort(q.host.Here, port)) })
		return conn, err
	})
	go q.station.run()
	return q
}

// round sends one command into a stalled link, which goes on some time after the answer.
func (q *queue) round(access string, longest time.Duration) bool {
	q.p.AwaitOnline(q.id, true)
	q.host.Shape(stalled)
	q.fill()
	if q.p.Unlock(access, q.token) {
		q.t.Error("unlocked through a stalled link")
	}
	answered := time.Now()
	wait(q.t.Context(), rand.N(longest)) // which is how long the link stays stalled
	before := q.station.connections()
	q.host.Shape(flowing)
	q.p.Await("the station is back", func() bool { return q.station.connections() > before })
	if last := q.station.lastOpening(); last.After(answered) {
		q.t.Errorf("the door opened %s after the client was told that it had not", last.Sub(answered))
		return false
	}
	return true
}

// fill uses up what the stalled link would still let through at once.
func (q *queue) fill() {
	conn, err := net.Dial("udp", "10.77."+q.host.Here[len("10.77."):len(q.host.Here)-1]+"2:9")
	if err != nil {
		q.t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	for range 40 {
		_, _ = conn.Write(make([]byte, 1000)) // refused by the host once it arrives
	}
}

// With no stall such a station refuses nothing; nor does it where its reports travel for up
// to 4 s, its clock is off by 100 millionths, and it starts again and again.
func TestAttack_queue_noStall(t *testing.T) {
	t.Parallel()
	commands, ttl := 25, "60s" // a loaded machine is no stall
	if gatewaytest.Torture() {
		commands, ttl = 100_000, "5s"
	}
	for name, c := range map[string]struct {
		delay func() time.Duration
		rate  float64
		lives int // restarts
		most  int // refused of the commands
	}{
		"healthy": {nil, 1, 0, 0},
		"reports that travel, clocks that drift, restarts": {
			func() time.Duration { return time.Duration(rand.Int64N(int64(4 * time.Second))) }, 1 + 100e-6, 4, commands / 1000, //nolint:gosec // a test's own
		},
		"a clock that is slow": {nil, 1 - 100e-6, 4, commands / 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_UNLOCK_TTL=" + ttl}})
			p.AddAccount()
			access, _ := p.Login()
			issued := p.Enrol(1042)
			s := newObedient(t, issued.MQTT, func() (net.Conn, error) { return net.Dial("tcp", p.MQTT) })
			s.delay, s.rate = c.delay, c.rate
			go s.run()
			p.Await("the station takes commands", func() bool { return s.connections() > 0 })
			for n := range commands {
				if c.lives > 0 && n > 0 && n%(commands/c.lives) == 0 {
					before := s.connections()
					s.restart()
					p.Await("the station is back", func() bool { return s.connections() > before })
				}
				p.AwaitOnline(1042, true)
				p.Unlock(access, issued.StationToken)
			}
			s.stop()
			if opened := len(s.opened); s.refused > c.most || s.bare > 0 || s.twice > 0 || opened < commands-c.most {
				t.Errorf("%d opened, %d refused, %d without notAfter, %d twice", opened, s.refused, s.bare, s.twice)
			}
		})
	}
}
