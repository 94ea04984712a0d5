package attacktest_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
)

// halt stops the process, as a hanging swap or a debugger does; resume lets it go on.
func halt(t *testing.T, p *gatewaytest.Program) {
	t.Helper()
	if err := p.Process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

func resume(t *testing.T, p *gatewaytest.Program) {
	t.Helper()
	if err := p.Process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Error(err)
	}
}

// unacknowledged returns how many bytes the kernel keeps for a peer, and whether there is
// still a socket to it.
func unacknowledged(t *testing.T, peer net.Addr) (bytes int, open bool) {
	t.Helper()
	table, err := os.ReadFile("/proc/thread-self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprintf(":%04X", peer.(*net.TCPAddr).Port)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasSuffix(fields[2], port) {
			continue
		}
		if _, err := fmt.Sscanf(fields[4], "%x:", &bytes); err != nil {
			t.Fatal(err)
		}
		return bytes, true
	}
	return 0, false
}

// A station's link is dead and the gateway's process stands still over the deadline: the
// kernel went on sending the command for 30 s, and the door opened 13.8 s after the
// request. The station of this test does not know notAfter.
func TestAttack_freeze(t *testing.T) {
	t.Parallel()
	gatewaytest.Binary(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	const ttl = 3 * time.Second
	rounds := 1
	if gatewaytest.Torture() {
		rounds = 100
	}
	h := gatewaytest.NewHost(t, 1)
	p := gatewaytest.Exec(t, gatewaytest.Launch{
		Env: []string{"GATEHOUSE_MQTT_LISTEN=" + h.Here + ":0", "GATEHOUSE_UNLOCK_TTL=" + ttl.String()},
	})
	p.AddAccount()
	access, _ := p.Login()
	issued := p.Enrol(1042)
	for range rounds {
		var conn net.Conn
		h.Do(func() {
			var err error
			if conn, err = net.DialTimeout("tcp", p.MQTT, 10*time.Second); err != nil {
				t.Error(err)
			}
		})
		if conn == nil {
			t.FailNow()
		}
		station := &gatewaytest.Station{T: t, Conn: conn, Login: issued.MQTT, Version: 4}
		station.Open(1)
		p.AwaitOnline(1042, true)
		p.Await("the SUBACK has arrived", func() bool {
			bytes, _ := unacknowledged(t, conn.LocalAddr())
			return bytes == 0
		})
		h.Vanish()
		deadline := time.NewTimer(ttl)
		answer := make(chan bool, 1)
		go func() { answer <- p.Unlock(access, issued.StationToken) }()
		p.Await("the command is on its way", func() bool {
			bytes, _ := unacknowledged(t, conn.LocalAddr())
			return bytes > 0
		})
		halt(t, p)
		<-deadline.C // that of the command, which left later, is over when the client's is
		<-time.After(ttl / 4)
		h.Return()
		_ = station.Ping()
		if c, err := station.NextCommand(); err == nil {
			t.Errorf("command %s came after its deadline", c.ID)
		}
		resume(t, p)
		if <-answer {
			t.Error("the client was told that the door had opened")
		}
		p.AwaitOnline(1042, false)
	}
}

// The gateway stands still over the deadline, and the station acknowledges meanwhile: when
// it goes on, it may read the PUBACK before its own timer has run, and answered success.
func TestAttack_lateAcknowledgement(t *testing.T) {
	t.Parallel()
	const stations, ttl = 12, 3 * time.Second
	rounds := 1
	if gatewaytest.Torture() {
		rounds = 100
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_UNLOCK_TTL=" + ttl.String()}})
	p.AddAccount()
	access, _ := p.Login()
	tokens := make(map[site.StationID]string)
	logins := make(map[site.StationID]func() *gatewaytest.Station)
	for id := site.StationID(1); id <= stations; id++ {
		issued := p.Enrol(id)
		tokens[id] = issued.StationToken
		logins[id] = func() *gatewaytest.Station { return p.Dial(issued.MQTT) }
	}
	for range rounds {
		var asked, commands sync.WaitGroup
		frozen := make(chan struct{})
		for id := range tokens {
			station := logins[id]()
			p.AwaitOnline(id, true)
			commands.Add(1)
			asked.Go(func() {
				if p.Unlock(access, tokens[id]) {
					t.Errorf("station %s: success after the deadline", id)
				}
			})
			asked.Go(func() {
				c, err := station.NextCommand()
				commands.Done()
				if err != nil {
					t.Error(err)
					return
				}
				<-frozen
				if err := station.TryAck(c); err != nil {
					t.Error(err)
				}
			})
		}
		commands.Wait()
		halt(t, p)
		<-time.After(ttl) // every deadline has passed
		close(frozen)
		<-time.After(100 * time.Millisecond) // the PUBACKs are there; where not, they are later still
		resume(t, p)
		asked.Wait()
	}
	late := 0
	for _, r := range p.Records() {
		switch r.Outcome {
		case site.Acknowledged, site.Done:
			t.Errorf("record %+v", r)
		case site.Late:
			late++
		}
	}
	t.Logf("%d of %d were read before the timer had run", late, stations*rounds)
}
