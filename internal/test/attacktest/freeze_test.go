package attacktest_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
)

// isolated is [gatewaytest.InNamespaces] for tests that need these programs there.
func isolated(t *testing.T, programs ...string) bool {
	t.Helper()
	need.Namespaces(t)
	need.Program(t, append(programs, "ip")...)
	gatewaytest.Binary(t)
	return gatewaytest.InNamespaces(t)
}

// halt stops the process, as a hanging swap or a debugger does; resume lets it go on. The
// signal is only a request: halt returns when no thread runs any more.
func halt(t *testing.T, p *gatewaytest.Program) {
	t.Helper()
	err := p.Process.Process.Signal(syscall.SIGSTOP)
	for stopped := false; err == nil && !stopped; {
		err = unix.Waitid(unix.P_PID, p.Process.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if stopped = err == nil; errors.Is(err, unix.EINTR) {
			err = nil
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func resume(t *testing.T, p *gatewaytest.Program) {
	t.Helper()
	if err := p.Process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Error(err)
	}
}

// States of a socket, from linux/tcp_states.h.
const (
	noSocket  = 0
	closeWait = 8 // the peer has sent its end
)

// farEnd returns the state of the gateway's socket of a connection to it, and how many
// bytes the kernel keeps until the peer has acknowledged them.
func farEnd(t *testing.T, conn net.Conn) (state, unacknowledged int) {
	t.Helper()
	table, err := os.ReadFile("/proc/thread-self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	name := func(a net.Addr) string {
		tcp := a.(*net.TCPAddr) //nolint:errcheck,forcetypeassert // every one is
		return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(tcp.IP.To4()), tcp.Port)
	}
	_, line, found := strings.Cut(string(table), ": "+name(conn.RemoteAddr())+" "+name(conn.LocalAddr())+" ")
	if !found {
		return noSocket, 0
	}
	if _, err := fmt.Sscanf(line, "%x %x:", &state, &unacknowledged); err != nil {
		t.Fatal(err)
	}
	return state, unacknowledged
}

// pass lets a deadline pass while the gateway stands still.
func pass(deadline time.Duration) {
	<-time.After(deadline) // real time: the later the gateway goes on, the later is what it does
}

// A station's link is dead and the gateway's process stands still over the deadline: the
// kernel went on sending the command for 30 s, and the door opened 13.8 s after the
// request. The station of this test does not know notAfter.
func TestAttack_freeze(t *testing.T) {
	t.Parallel()
	if !isolated(t, "nft") {
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
	for rounds > 0 {
		if freezeUnlock(t, p, h, access, issued, ttl) {
			rounds--
		}
	}
}

// freezeUnlock asks for a door behind a link that dies, and stops the process with the
// command on its way until the deadline is over. It reports false, and proves nothing,
// where the deadline was over before the process stood still.
func freezeUnlock(t *testing.T, p *gatewaytest.Program, h *gatewaytest.Host, access string, issued adminapi.IssuedStation, ttl time.Duration) bool {
	t.Helper()
	var conn net.Conn
	var err error
	h.Do(func() { conn, err = net.Dial("tcp", p.MQTT) }) //nolint:noctx // on this machine
	if err != nil {
		t.Fatal(err)
	}
	station := &gatewaytest.Station{T: t, Conn: conn, Login: issued.MQTT, Version: 4}
	station.Open(1)
	p.AwaitOnline(1042, true)
	kept := func() int {
		_, bytes := farEnd(t, conn)
		return bytes
	}
	await.Until(t, "the SUBACK has arrived", func() bool { return kept() == 0 })
	h.Vanish()
	answer := make(chan bool, 1)
	go func() { answer <- p.Unlock(access, issued.StationToken) }()
	await.Until(t, "the command is on its way", func() bool { return kept() > 0 || len(answer) > 0 })
	halt(t, p)
	frozen := kept() > 0
	if frozen {
		pass(ttl + ttl/4) // the kernel's own clock is coarse
	}
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
	return frozen
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
	for delayed := 0; delayed < rounds*stations; { // some may expire before the process stands still
		var asked, commands, acknowledged sync.WaitGroup
		frozen := make(chan struct{})
		var written atomic.Int64
		for id := range tokens {
			station := logins[id]()
			p.AwaitOnline(id, true)
			commands.Add(1)
			asked.Go(func() {
				if p.Unlock(access, tokens[id]) {
					t.Errorf("station %s: success after the deadline", id)
				}
				_ = station.Conn.Close() // nothing comes any more
			})
			acknowledged.Go(func() {
				c, err := station.NextCommand()
				commands.Done()
				if err != nil {
					return
				}
				<-frozen
				if station.TryAck(c) == nil {
					written.Add(1)
				}
			})
		}
		commands.Wait()
		halt(t, p)
		pass(ttl)
		close(frozen)
		acknowledged.Wait()
		resume(t, p)
		asked.Wait()
		delayed += int(written.Load())
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
	t.Logf("%d were read before the timer had run", late)
}
