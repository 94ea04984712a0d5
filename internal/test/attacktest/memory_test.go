package attacktest_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
)

// mostMemory is what the gateway may take under any flood without an account, in bytes.
const mostMemory = 160 << 20

// One address without an account had the gateway killed by its memory limit within 8 s:
// 256 HTTP/2 connections with 64 unfinished requests each. Now few streams a connection,
// the smallest buffers, and a place among a bounded number of requests bound that.
func TestAttack_unfinishedRequests(t *testing.T) {
	t.Parallel()
	connections, lasting, pause := 20, time.Second, 200*time.Millisecond
	launch := gatewaytest.Launch{Env: []string{
		"GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0", "GATEHOUSE_MQTT_TLS_LISTEN=127.0.0.1:0",
	}}
	if gatewaytest.Torture() {
		connections, lasting, pause = 600, time.Minute, 20*time.Second
	} else {
		launch.Env = append(launch.Env, "GOMEMLIMIT=80MiB") // up to which a slow machine may collect no garbage
	}
	p := gatewaytest.Exec(t, launch)
	p.AddAccount()
	app := startHealthy(t, p, 1, 100*time.Millisecond)
	https, mqtts := p.HTTPS[len("https://"):], p.MQTTS
	expectBounds(t, https)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var attacking, begun sync.WaitGroup
	begun.Add(4 * connections)
	for n := range connections {
		host := fmt.Sprintf("127.0.%d.%d", 1+n%5, 1+n%7)
		for _, attack := range []func(io.Writer){unfinishedBodies, answersNotTaken, unfinishedHeader} {
			attacking.Go(func() { again(ctx, pause, host, https, sync.OnceFunc(begun.Done), attack) })
		}
		attacking.Go(func() { again(ctx, pause, host, mqtts, sync.OnceFunc(begun.Done), func(io.Writer) {}) })
	}
	begun.Wait()
	wait(ctx, lasting)
	app.judge()
	stop()
	attacking.Wait()
	_, most := p.Resident()
	t.Logf("%d connections of each of 4 kinds: %d MB resident at most", connections, most>>20)
	if most > mostMemory {
		t.Errorf("%d MB were resident", most>>20)
	}
}

// expectBounds asks the gateway how much HTTP/2 it takes on one connection: each setting
// is memory that a client can have it hold (RFC 9113, 6.5.2).
func expectBounds(t *testing.T, address string) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // our own gateway
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(await.Deadline())
	opening(conn, 0)
	head := make([]byte, 9)
	if _, err := io.ReadFull(conn, head); err != nil || head[3] != 4 {
		t.Fatalf("the first frame is %x, %v", head, err)
	}
	settings := make([]byte, int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(conn, settings); err != nil {
		t.Fatal(err)
	}
	most := map[uint16]uint32{3: 16, 4: 64 << 10, 5: 16 << 10, 6: 20 << 10} // streams, window, frame, header
	for ; len(settings) >= 6; settings = settings[6:] {
		key, value := binary.BigEndian.Uint16(settings), binary.BigEndian.Uint32(settings[2:])
		if bound, ok := most[key]; ok && value > bound {
			t.Errorf("setting %d is %d, want %d at most", key, value, bound)
		}
		delete(most, key)
	}
	if len(most) > 0 {
		t.Errorf("without a bound: %v", most)
	}
}

// again keeps one connection of an attack open, and opens another some time after it has
// ended, half to one and a half times pause: the attackers, the healthy app and its
// station share the processor with the gateway, and a handshake costs the client as much
// as the server. It calls begun once its first connection is made, or has failed.
func again(ctx context.Context, pause time.Duration, host, address string, begun func(), attack func(io.Writer)) {
	defer begun()
	wait(ctx, rand.N(pause/2))
	for ctx.Err() == nil {
		once(ctx, host, address, func(w io.Writer) { begun(); attack(w) })
		begun()
		wait(ctx, pause/2+rand.N(pause))
	}
}

// wait waits, unless ctx ends before.
func wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause) // real time: it sets the pace of an attack, and judges nothing
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// once opens a TLS connection, attacks, and waits until it ends; 10 s at most.
func once(ctx context.Context, host, address string, attack func(io.Writer)) {
	raw, err := from(ctx, host, address)
	if err != nil {
		return
	}
	defer func() { _ = raw.Close() }()
	over := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer over()
	_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // our own gateway
	if conn.HandshakeContext(ctx) != nil {
		return
	}
	attack(conn)
	_, _ = io.Copy(io.Discard, conn)
}

// unfinishedBodies opens 64 logins over HTTP/2 with large headers, whose bodies never end.
func unfinishedBodies(w io.Writer) {
	opening(w, 1<<20)
	for n := range uint32(64) {
		header := fields(":method", "POST", ":scheme", "https", ":path", "/v1/auth/login", ":authority", "x",
			"content-type", "application/json", "x-filler", strings.Repeat("x", 12_000))
		frame(w, 1, 4, 2*n+1, header)
		frame(w, 0, 0, 2*n+1, make([]byte, 900))
	}
}

// answersNotTaken asks for 64 answers over HTTP/2 and has no room for any.
func answersNotTaken(w io.Writer) {
	opening(w, 0)
	for n := range uint32(64) {
		header := fields(":method", "GET", ":scheme", "https", ":path", "/v1/openapi.json", ":authority", "x",
			"x-filler", strings.Repeat("x", 12_000))
		frame(w, 1, 5, 2*n+1, header)
	}
}

// unfinishedHeader sends a header over HTTP/2 that never ends.
func unfinishedHeader(w io.Writer) {
	opening(w, 0)
	frame(w, 1, 0, 1, fields(":method", "GET", ":scheme", "https", ":path", "/", ":authority", "x", "x-filler", strings.Repeat("x", 15_000)))
}

// opening begins HTTP/2 with that much room for each answer (RFC 9113, 3.4).
func opening(w io.Writer, window uint32) {
	_, _ = io.WriteString(w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame(w, 4, 0, 0, binary.BigEndian.AppendUint32([]byte{0, 4}, window))
}

// frame writes one HTTP/2 frame (RFC 9113, 4.1).
func frame(w io.Writer, kind, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	b := append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(b[5:], stream)
	_, _ = w.Write(append(b, payload...))
}

// fields encodes names and values as literals that are not indexed (RFC 7541, 6.2.2).
func fields(pairs ...string) []byte {
	var b []byte
	for n, text := range pairs {
		if n%2 == 0 {
			b = append(b, 0)
		}
		if len(text) < 127 {
			b = append(b, byte(len(text)))
		} else {
			b = binary.AppendUvarint(append(b, 127), uint64(len(text)-127)) //nolint:gosec // a length
		}
		b = append(b, text...)
	}
	return b
}
