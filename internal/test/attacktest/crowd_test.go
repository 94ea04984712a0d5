package attacktest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
)

// from dials from an address of this machine.
func from(ctx context.Context, host, address string) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	return dialer.DialContext(ctx, "tcp", address)
}

// besiege opens that many connections from each of so many addresses, has each do
// something, and keeps them open until end is called or the test ends. It returns when all
// were tried.
func besiege(t *testing.T, address string, hosts, each int, do func(net.Conn)) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex // mu guards kept
	var kept []net.Conn
	var trying sync.WaitGroup
	slots := make(chan struct{}, 64)
	end = func() {
		stop()
		for _, c := range kept {
			_ = c.Close()
		}
	}
	t.Cleanup(end)
	for n := range hosts * each {
		slots <- struct{}{}
		trying.Go(func() {
			defer func() { <-slots }()
			conn, err := from(ctx, fmt.Sprintf("127.0.%d.%d", 1+n%hosts/200, 1+n%hosts%200), address)
			if err != nil {
				return
			}
			if do != nil {
				_ = conn.SetDeadline(await.Deadline())
				do(conn)
			}
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, conn)
		})
	}
	trying.Wait()
	return end
}

// 1,024 connections from four addresses locked every new app out for minutes: idle ones
// after one request, or half-open ones that had sent one byte. Now a newcomer evicts
// one of the address that holds most. (Here 128 are as many as there may be.)
func TestAttack_idleConnections(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:0", "GATEHOUSE_HTTP_MAX_CONNECTIONS=128", "GATEHOUSE_HTTP_MAX_CONNECTIONS_PER_ADDRESS=64"}})
	p.AddAccount()
	app := startHealthy(t, p, 1, 100*time.Millisecond)
	for name, attack := range map[string]func(net.Conn){
		"idle": func(c net.Conn) {
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n")
			_, _ = c.Read(make([]byte, 1000))
		},
		"header": func(c net.Conn) { _, _ = io.WriteString(c, "GET / HT") },
		"body": func(c net.Conn) {
			_, _ = io.WriteString(c, "POST /v1/auth/login HTTP/1.1\r\nHost: 192.0.2.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
		},
	} {
		besiege(t, p.HTTP[len("http://"):], 4, 32, attack)
		for range 10 {
			expectAnswer(t, name, p.HTTP, "127.9.9.9")
		}
	}
	besiege(t, p.HTTPS[len("https://"):], 4, 32, func(c net.Conn) { _, _ = c.Write([]byte{0x16}) })
	for range 10 {
		expectAnswer(t, "hello", p.HTTPS, "127.9.9.9")
	}
	app.judge()
	if out, status := p.Run("status"); status != 0 {
		t.Errorf("status: %d %s", status, out)
	}
}

// expectAnswer asks /healthz over a new connection from an address.
func expectAnswer(t *testing.T, attack, base, host string) {
	t.Helper()
	client := http.Client{Timeout: await.Patience, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // our own gateway
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return from(ctx, host, address) },
	}}
	resp, err := client.Get(base + "/healthz") //nolint:noctx // it has a timeout
	if err != nil {
		t.Errorf("%s: a new app was kept out: %v", attack, err)
		return
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", attack, resp.Status)
	}
}

// 18,000 silent sockets from one address delayed every station's reconnect by seconds,
// because newcomers waited until those before them had had a fifth of connect_timeout,
// which is a minute here. Now nobody waits.
func TestAttack_silentSockets(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{"GATEHOUSE_MQTT_CONNECT_TIMEOUT=1m"}})
	p.AddAccount()
	app := startHealthy(t, p, 1, 100*time.Millisecond)
	login := p.Enrol(2).MQTT
	silent := 5000
	if gatewaytest.Torture() {
		silent = 16_000
	}
	await.Until(t, "a station comes back before any silent socket has had a fifth of a minute", func() bool {
		began := time.Now()
		defer besiege(t, p.MQTT, 1, silent, nil)()
		p.Dial(login).Close()
		return time.Since(began) < time.Minute/5 // real time: a slow machine tries again, with new sockets
	})
	app.judge()
}
