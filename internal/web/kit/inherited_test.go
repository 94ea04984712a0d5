package kit_test

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/metric"
	"gatehouse/internal/test/await"
	"gatehouse/internal/web/kit"
)

// A request that waited at a socket which systemd holds, while the gateway restarted, came
// before this process.
func TestKit_Receive_inheritedSocket(t *testing.T) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	client, err := net.Dial("tcp", socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, request("/door")); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the kernel has had the request for a while", func() bool { return admission.Age(client) > 200*time.Millisecond })
	k := kit.New(kit.Config{Metrics: metric.New(), Logger: slog.New(slog.DiscardHandler)})
	k.SetClock(func() time.Duration { return time.Hour })
	conn, err := k.Receive(socket).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if since := kit.Since(conn); since > time.Hour-100*time.Millisecond {
		t.Errorf("it came at %s of %s", since, time.Hour)
	}
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		t.Error("the answer cannot end before the request")
	}
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the end of the answer: %v", err)
	}
}
