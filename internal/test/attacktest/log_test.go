package attacktest_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// What was possible: the reader of the log stalled, and after 190 unlocks no request
// was answered, no station could connect and no signal ended the process, while the
// watchdog was fed. A hanging card stops the journal service in just this way.
func TestAttack_log_nobodyReads(t *testing.T) {
	t.Parallel()
	reader, writer := pipe(t)
	p := gatewaytest.Exec(t, gatewaytest.Launch{Log: writer, Env: []string{"GATEHOUSE_LOG_LEVEL=debug"}})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	fillPipe(t, writer)
	answering(p, issued.MQTT)
	p.AwaitOnline(1042, true)
	for i := range 300 {
		if i%10 == 0 { // connections are logged, as are the sessions that this revokes
			p.Login()
			answering(p, issued.MQTT)
			p.AwaitOnline(1042, true)
		}
		if !p.Unlock(access, issued.StationToken) {
			t.Fatalf("door %d did not open while nobody reads the log", i)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- p.Stop() }()
	if err := await.Receive(t, "the process ends", stopped); err != nil {
		t.Error(err)
	}
	_ = reader.Close()
}

// What was possible: the reader of the log went away, and the next CONNECT of a station
// ended the process by SIGPIPE.
func TestAttack_log_readerGone(t *testing.T) {
	t.Parallel()
	reader, writer := pipe(t)
	p := gatewaytest.Exec(t, gatewaytest.Launch{Log: writer})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	_ = reader.Close()
	for range 3 {
		answering(p, issued.MQTT)
		p.AwaitOnline(1042, true)
		if !p.Unlock(access, issued.StationToken) {
			t.Error("the door did not open")
		}
	}
	select {
	case <-p.Ended():
		t.Fatal("the gateway ended with the reader of its log")
	default:
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// What was possible: one station with its own secret wrote 9 MB of log in 15 s by
// connecting again and again, and the system's log dropped other lines for it.
func TestAttack_log_flappingStation(t *testing.T) {
	t.Parallel()
	rounds := 400
	if gatewaytest.Torture() {
		rounds = 40_000
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	p.AddAccount()
	flapping, quiet := p.Enrol(1042), p.Enrol(1043)
	began := time.Now()
	for range rounds {
		p.Dial(flapping.MQTT).Close()
	}
	p.Dial(quiet.MQTT)
	p.Await("the other station's connection is logged", func() bool {
		return strings.Contains(p.Log(), `msg="station connected" station=1043`)
	})
	lines := strings.Count(p.Log(), "station=1042")
	flaps := 0
	for _, r := range p.Records() {
		if r.Station == 1042 && (r.Kind == site.KindStationOnline || r.Kind == site.KindStationOffline) {
			flaps++
		}
	}
	seconds := int(time.Since(began).Seconds()) // real time: the longer it took, the more is allowed
	if lines > rounds/4+seconds {
		t.Errorf("%d reconnects of one station wrote %d lines in %d s", rounds, lines, seconds)
	}
	if flaps > rounds/2+seconds {
		t.Errorf("%d reconnects of one station wrote %d records in %d s", rounds, flaps, seconds)
	}
}

// pipe returns both ends of a pipe; they are closed when the test ends.
func pipe(t *testing.T) (reader, writer *os.File) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = reader.Close(), writer.Close() })
	return reader, writer
}

// fillPipe writes until the pipe is full: every other writer blocks.
func fillPipe(t *testing.T, writer *os.File) {
	t.Helper()
	// A description of its own: the process under test keeps one that blocks.
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(writer.Fd())), unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = unix.Write(fd, []byte("x"))
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
}

// answering connects the station, which acknowledges every command until its
// connection ends.
func answering(p *gatewaytest.Program, access adminapi.MQTTLogin) *gatewaytest.Station {
	p.T.Helper()
	s := p.Dial(access)
	go func() {
		for {
			c, err := s.NextCommand()
			if err != nil || s.TryAck(c) != nil {
				return
			}
		}
	}()
	return s
}
