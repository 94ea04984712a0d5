package broker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/door/broker"
)

// victimMark makes the test binary a broker that waits to be killed.
const victimMark = "GATEHOUSE_TEST_VICTIM"

// beVictim, where it is asked for, serves a broker that floods each station that reports with
// commands, and says when a command could not be written any more.
func beVictim() {
	if os.Getenv(victimMark) == "" {
		return
	}
	handler := newRecorder()
	handler.onReport = func(c *broker.Conn, _ string) {
		go func() {
			for c.Send(1, 1, says(make([]byte, 8000)), time.Now().Add(time.Hour)) == nil {
				fmt.Println("sent")
			}
		}()
	}
	server := broker.New(broker.Config{
		Authenticator: everyone{}, Handler: handler, Limits: broker.Limits{WriteTimeout: time.Hour},
	}.Filled())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	panic(server.Serve(context.Background(), broker.Listener{Net: l}))
}

// A killed gateway leaves no command to the kernel: what the station's kernel has
// not taken never arrives.
func TestServer_killed(t *testing.T) {
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), victimMark+"=1")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer victim.Process.Kill()
	lines := bufio.NewScanner(out)
	lines.Scan()
	conn, err := net.Dial("tcp", strings.TrimSpace(lines.Text()))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, conn)
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	c.connect(1, 4)
	c.subscribe(1, 1)
	c.send(publication(4, 0, "stations/1/report", 0, "{}"))
	for range 40 { // more than the station's kernel takes
		lines.Scan()
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	if _, err := io.Copy(io.Discard, c.in); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("the connection ends with %v; want a reset", err)
	}
}
