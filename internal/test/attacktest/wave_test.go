package attacktest_test

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
)

// A wave of TLS reconnects on a slow processor never ended: 1,000 stations on 1/60 of a
// core stood at 302 online after 100 s, because all handshakes shared the processor and
// one window of 5 s, and most were dropped unfinished. Now only as many compute at
// once as there are turns (see the tests of package admission, which prove the order), what
// waits costs next to nothing, and no garbage is collected meanwhile: one collection took
// four seconds.
func TestAttack_reconnectWave(t *testing.T) {
	t.Parallel()
	stations, share := 150, 0
	if gatewaytest.Torture() {
		stations, share = 1000, 60
	}
	launch := gatewaytest.Launch{Env: []string{"GATEHOUSE_MQTT_TLS_LISTEN=127.0.0.1:0", "GATEHOUSE_LOG_LEVEL=warn"}}
	group := ""
	if share > 0 {
		group = processorGroup(t)
		launch.Wrap = inGroup(group)
	}
	p := gatewaytest.Exec(t, launch)
	p.AddAccount()
	logins := make([]adminapi.MQTTLogin, stations)
	for i := range logins {
		issued, err := p.Admin.AddStation(t.Context(), adminapi.NewStation{StationID: site.StationID(i + 1), Locks: 1})
		if err != nil {
			t.Fatal(err)
		}
		logins[i] = issued.MQTT
	}
	app := startHealthy(t, p, 5000, time.Second)
	if share > 0 {
		slowDown(t, group, share)
	}
	began := time.Now()
	var online, tries atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, login := range logins {
		running.Go(func() { stayOnline(ctx, p.MQTTS, login, &online, &tries) })
	}
	last := int64(-1)
	awaitLong(t, 2*time.Minute, "every station is online", func() bool {
		if now := online.Load(); now/100 != last/100 || last < 0 {
			last = now
			t.Logf("%v: %d online after %d tries", time.Since(began).Round(time.Second), now, tries.Load())
		}
		return online.Load() == int64(stations)
	})
	took := time.Since(began)
	_, _, most := app.judge()
	t.Logf("%d stations online after %v and %d tries", stations, took, tries.Load())
	if share > 0 && (took > time.Minute || most > time.Second) {
		t.Errorf("the wave took %v, the longest unlock meanwhile %v", took, most)
	}
}

// awaitLong waits for a condition that may take its time.
func awaitLong(t *testing.T, patience time.Duration, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// stayOnline is a station that connects again whenever its connection ends or takes
// longer than 15 s, until ctx ends.
func stayOnline(ctx context.Context, address string, login adminapi.MQTTLogin, online, tries *atomic.Int64) {
	cache := tls.NewLRUClientSessionCache(1)
	for ctx.Err() == nil {
		tries.Add(1)
		if s := connectTLS(ctx, address, login, cache); s != nil {
			online.Add(1)
			over := context.AfterFunc(ctx, func() { _ = s.Conn.Close() })
			beat := time.AfterFunc(75*time.Second, func() { _ = s.Ping() }) // of 90
			_ = s.Conn.SetReadDeadline(time.Time{})
			for err := error(nil); err == nil; _, err = s.Conn.Read(make([]byte, 100)) { // waits for the end
			}
			beat.Stop()
			over()
			online.Add(-1)
		}
		wait(ctx, time.Duration(200+rand.IntN(800))*time.Millisecond)
	}
}

// connectTLS connects a station within 15 s; nil where that fails.
func connectTLS(ctx context.Context, address string, login adminapi.MQTTLogin, cache tls.ClientSessionCache) *gatewaytest.Station {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ClientSessionCache: cache, ServerName: "gateway"}} //nolint:gosec // our own gateway
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	over := context.AfterFunc(ctx, func() { _ = conn.Close() })
	s := &gatewaytest.Station{Conn: conn, Login: login, Version: 4}
	if err := s.TryOpen(1); err != nil || !over() {
		_ = conn.Close()
		return nil
	}
	return s
}

// processorGroup makes a group of processes whose share of the processor slowDown sets.
func processorGroup(t *testing.T) string { return newGroup(t, "cpu", nil) }

// memoryGroup makes a group of processes with the memory that the unit allows.
func memoryGroup(t *testing.T) string {
	return newGroup(t, "memory", map[string]int{"memory.limit_in_bytes": 300 << 20})
}

// newGroup makes a control group (version 1) that the test removes.
func newGroup(t *testing.T, kind string, limits map[string]int) string {
	t.Helper()
	group := "/sys/fs/cgroup/" + kind + "/gatehouse-" + strconv.Itoa(os.Getpid())
	if err := os.Mkdir(group, 0o755); err != nil { //nolint:gosec // as such folders are
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	limit(t, group, limits)
	return group
}

// inGroup is a wrapper that runs a program in a group.
func inGroup(group string) []string {
	return []string{"/bin/sh", "-c", "echo $$ > " + group + "/cgroup.procs; exec \"$@\"", "sh"}
}

// slowDown leaves the group one part in share of a core.
func slowDown(t *testing.T, group string, share int) {
	t.Helper()
	limit(t, group, map[string]int{"cpu.cfs_period_us": 1000 * share, "cpu.cfs_quota_us": 1000})
}

func limit(t *testing.T, group string, limits map[string]int) {
	t.Helper()
	for name, value := range limits {
		if err := os.WriteFile(filepath.Join(group, name), []byte(strconv.Itoa(value)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
