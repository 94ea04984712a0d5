package attacktest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

const (
	wrongPassword = "not-the-password-1"
	insider       = "insider@example.test"
	loginPort     = "8080" // in a namespace of the test's own
)

// phone is a client at one address, with a connection for each request.
type phone struct{ *http.Client }

// phoneAt returns a client whose connections come from that address.
func phoneAt(from string) phone {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Control: freebind}
	return phone{&http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}}
}

// post sends fields as JSON and returns the status and when to come back. The status is
// 0 when there was no answer.
func (p phone) post(ctx context.Context, url string, fields map[string]string) (status int, retry time.Duration) {
	body, err := json.Marshal(fields)
	if err != nil {
		return 0, 0
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, 0
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.Do(req)
	if err != nil {
		return 0, 0
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return resp.StatusCode, time.Duration(seconds) * time.Second
}

// login logs in at the listener of the client's own kind of address.
func (p phone) login(ctx context.Context, at, email, password string) (int, time.Duration) {
	return p.post(ctx, "http://"+net.JoinHostPort(at, loginPort)+"/v1/auth/login", map[string]string{"email": email, "password": password})
}

// The addresses of the gateway in the test's own network.
const gateIPv4, gateIPv6, gateLocal = "10.66.0.1", "fd00:66::1", "127.0.0.1"

// throttledGateway starts a gateway in a network namespace in which all of 10.66.0.0/16
// and one IPv6 network are this host.
func throttledGateway(t *testing.T) *gatewaytest.Program {
	t.Helper()
	for _, command := range []string{
		"addr add " + gateIPv4 + "/32 dev lo", "route add local 10.66.0.0/16 dev lo",
		"-6 addr add " + gateIPv6 + "/128 dev lo nodad", "-6 route add local fd00:66::/64 dev lo",
	} {
		if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(command)...).CombinedOutput(); err != nil { //nolint:gosec // of this test
			t.Fatalf("ip %s: %v\n%s", command, err, out)
		}
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{Env: []string{
		"GATEHOUSE_HTTP_LISTEN=[::]:" + loginPort, "GATEHOUSE_LOGIN_HASH_MEMORY=7MiB", "GATEHOUSE_LOGIN_HASH_TIME=1",
	}})
	p.AddAccount()
	if _, err := p.Admin.AddAccount(t.Context(), adminapi.NewAccount{Email: insider, Password: gatewaytest.Password}); err != nil {
		t.Fatal(err)
	}
	return p
}

// deviceAt returns a client that keeps cookies.
func deviceAt(t *testing.T, from string) phone {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := phoneAt(from)
	p.Jar = jar
	return p
}

// owner logs in with the right password and requires that it is taken, at once or, with
// patient, when the gateway said to come back.
func owner(t *testing.T, from, at string, patient bool) {
	t.Helper()
	phoneAt(from).owner(t, from, at, patient)
}

// owner is the same for a client.
func (p phone) owner(t *testing.T, from, at string, patient bool) {
	t.Helper()
	ctx := await.Context(t)
	for {
		status, retry := p.login(ctx, at, gatewaytest.Email, gatewaytest.Password)
		if status == http.StatusOK {
			return
		}
		if !patient || status != http.StatusTooManyRequests {
			t.Errorf("the right password from %s is answered with %d", from, status)
			return
		}
		wait(ctx, retry)
	}
}

// flood runs n clients that each call again and again, with little rest, until the
// returned function ends them. It returns once each has had an answer.
func flood(t *testing.T, n int, call func(ctx context.Context, i, round int)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all, begun sync.WaitGroup
	begun.Add(n)
	for i := range n {
		all.Go(func() {
			call(ctx, i, 0)
			begun.Done()
			for round := 1; ctx.Err() == nil; round++ {
				wait(ctx, 10*time.Millisecond)
				call(ctx, i, round)
			}
		})
	}
	begun.Wait()
	return func() { cancel(); all.Wait() }
}

// The throttle of logins was a weapon: an IPv6 neighbour's failures counted for the whole
// network, anyone's failures at an account locked its owner out, and a flood of logins,
// right or wrong, left no room for the owner's.
func TestAttack_login(t *testing.T) {
	t.Parallel()
	gatewaytest.Binary(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	p := throttledGateway(t)
	known := deviceAt(t, "10.66.1.1")
	known.owner(t, "10.66.1.1", gateIPv4, false)

	fail := func(from, at, email string) (status int) {
		status, _ = phoneAt(from).login(t.Context(), at, email, wrongPassword)
		return status
	}
	for i := range 40 { // more than an address may
		fail("fd00:66::66", gateIPv6, fmt.Sprintf("u%d@example.test", i))
	}
	owner(t, "fd00:66::7", gateIPv6, false)

	for i := range 60 { // more than the account may, from five addresses
		fail(fmt.Sprintf("10.66.2.%d", i%5), gateIPv4, gatewaytest.Email)
	}
	owner(t, "10.66.3.1", gateIPv4, false)
	known.owner(t, "10.66.1.1", gateIPv4, false)

	lockOut := func(from, at string) {
		tries, began := 0, time.Now()
		await.Until(t, "the wrong passwords from "+from+" are too many", func() bool {
			tries++
			return fail(from, at, gatewaytest.Email) == http.StatusTooManyRequests
		})
		if most := 13 + int(time.Since(began)/(6*time.Second)); tries > most { // real time: the longer it takes, the more are allowed
			t.Errorf("%d wrong passwords from %s were tried, %d are allowed", tries, from, most)
		}
	}
	lockOut(gateLocal, gateLocal) // wrong passwords over loopback are refused too
	lockOut("10.66.1.1", gateIPv4)
	known.owner(t, "10.66.1.1", gateIPv4, false)

	lockOut("10.66.4.1", gateIPv4) // by its owner's own mistakes, until the administrator helps
	if _, err := p.Admin.SetPassword(t.Context(), gatewaytest.Email, adminapi.NewPassword{Password: gatewaytest.Password}); err != nil {
		t.Fatal(err)
	}
	owner(t, "10.66.4.1", gateIPv4, false)
}

// Floods of logins, while which the owner comes in from a known device at once, also at the
// address of the flood and over loopback, and from a new one when told to come back.
func TestAttack_loginFlood(t *testing.T) {
	t.Parallel()
	gatewaytest.Binary(t)
	if !gatewaytest.InNamespaces(t) {
		return
	}
	throttledGateway(t)
	known := map[string]phone{"10.66.1.1": {}, "10.66.9.1": {}, gateLocal: {}}
	hosts := func(from string) (gateway string) {
		if from == gateLocal {
			return gateLocal
		}
		return gateIPv4
	}
	for from := range known {
		known[from] = deviceAt(t, from)
		known[from].owner(t, from, hosts(from), false)
	}
	local := phoneAt(gateLocal)
	users := make([]phone, 100)
	for i := range users {
		users[i] = phoneAt(fmt.Sprintf("10.66.9.%d", i%40))
	}
	for name, attack := range map[string]func(ctx context.Context, i, round int){
		"one user's right password": func(ctx context.Context, _, _ int) {
			users[0].login(ctx, gateIPv4, insider, gatewaytest.Password)
		},
		"wrong passwords from 40 addresses": func(ctx context.Context, i, round int) {
			users[i].login(ctx, gateIPv4, fmt.Sprintf("u%d.%d@example.test", i, round), wrongPassword)
		},
		"wrong passwords of the owner from one address": func(ctx context.Context, _, _ int) {
			users[1].login(ctx, gateIPv4, gatewaytest.Email, wrongPassword)
		},
		"wrong passwords of the owner over loopback": func(ctx context.Context, _, _ int) {
			local.login(ctx, gateLocal, gatewaytest.Email, wrongPassword)
		},
	} {
		stop := flood(t, len(users), attack)
		for range 5 {
			for from, p := range known {
				p.owner(t, from, hosts(from), false)
			}
		}
		owner(t, fmt.Sprintf("10.66.5.%d", len(name)), gateIPv4, true)
		if t.Failed() {
			t.Logf("during: %s", name)
		}
		stop()
	}
}

// Anyone on the network kept the owner of a new board from setting it up, with five
// wrong setup codes a minute.
func TestAttack_setupCode(t *testing.T) {
	t.Parallel()
	p := gatewaytest.Exec(t, gatewaytest.Launch{})
	attacker, setup := phoneAt("127.0.0.66"), p.HTTP+"/local/v1/setup"
	claim := func(code string) map[string]string {
		return map[string]string{"code": code, "email": gatewaytest.Email, "password": gatewaytest.Password}
	}
	counts := map[int]int{}
	for range 50 {
		status, _ := attacker.post(t.Context(), setup, claim("AAAA-AAAA"))
		counts[status]++
	}
	if counts[http.StatusForbidden] > 10 || counts[http.StatusTooManyRequests] < 40 {
		t.Errorf("50 wrong codes were answered %v", counts)
	}
	code, err := os.ReadFile(filepath.Join(p.Data, "setup.code"))
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := phoneAt("127.0.0.7").post(t.Context(), setup, claim(strings.TrimSpace(string(code)))); status != http.StatusCreated {
		t.Errorf("the right code is answered with %d", status)
	}
}
