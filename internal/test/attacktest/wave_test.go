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
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
	"gatehouse/internal/web/adminapi"
)

// A wave of TLS reconnects on a slow processor never ended: all handshakes shared the
// processor and one window of 5 s, and most were dropped unfinished. Now only as many compute
// at once as there are turns (see the tests of packages limit and admission, which prove the
// order), and none begins while a door is being opened. 300 stations on 1/20 of a core are
// online within a minute, and an unlock meanwhile takes less than a second.
func TestAttack_reconnectWave(t *testing.T) {
	t.Parallel()
	stations, share, patience := 150, 0, await.Patience
	if gatewaytest.Torture() {
		stations, share, patience = 300, 20, 15*time.Second
	}
	launch := gatewaytest.Launch{Env: []string{"GATEHOUSE_MQTT_TLS_LISTEN=127.0.0.1:0", "GATEHOUSE_LOG_LEVEL=warn"}}
	group := ""
	if share > 0 {
		need.Root(t)
		group = processorGroup(t)
		launch.Wrap = inGroup(group)
		launch.Env = append(launch.Env, "GATEHOUSE_UNLOCK_TTL=5s") // as shipped
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
	var online, tries atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, login := range logins {
		running.Go(func() { stayOnline(ctx, p.MQTTS, login, patience, &online, &tries) })
	}
	began := time.Now()
	await.Until(t, "every station is online", func() bool { return online.Load() == int64(stations) })
	took := time.Since(began) // real time: the share of the processor makes it the same everywhere
	app.judge()
	t.Logf("%d stations online after %v and %d tries, the longest unlock took %v", stations, took, tries.Load(), app.longest)
	if share > 0 && (took > time.Minute || app.longest > time.Second) {
		t.Error("too long")
	}
}

// stayOnline is a station that connects again whenever its connection ends, or is not made
// within patience, until ctx ends.
func stayOnline(ctx context.Context, address string, login adminapi.MQTTLogin, patience time.Duration, online, tries *atomic.Int64) {
	cache := tls.NewLRUClientSessionCache(1)
	for ctx.Err() == nil {
		tries.Add(1)
		if s := connectTLS(ctx, address, login, patience, cache); s != nil {
			online.Add(1)
			over := context.AfterFunc(ctx, func() { _ = s.Conn.Close() })
			_ = s.Conn.SetReadDeadline(time.Time{})
			for err := error(nil); err == nil; _, err = s.Conn.Read(make([]byte, 100)) { // waits for the end
			}
			over()
			online.Add(-1)
		}
		wait(ctx, time.Duration(200+rand.IntN(800))*time.Millisecond)
	}
}

// connectTLS connects a station within patience; nil where that fails.
func connectTLS(ctx context.Context, address string, login adminapi.MQTTLogin, patience time.Duration, cache tls.ClientSessionCache) *gatewaytest.Station {
	ctx, cancel := context.WithTimeout(ctx, patience) // real time: a station that stops waiting tries again
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

// processorGroup makes a control group (version 1) of processes whose share of the
// processor slowDown sets. The test removes it.
func processorGroup(t *testing.T) string {
	t.Helper()
	group, err := os.MkdirTemp("/sys/fs/cgroup/cpu", "gatehouse-") //nolint:usetesting // no folder of files
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	return group
}

// inGroup is a wrapper that runs a program in a group.
func inGroup(group string) []string {
	return []string{"/bin/sh", "-c", "echo $$ > " + group + "/cgroup.procs; exec \"$@\"", "sh"}
}

// slowDown leaves the group one part in share of a core.
func slowDown(t *testing.T, group string, share int) {
	t.Helper()
	for name, value := range map[string]int{"cpu.cfs_period_us": 1000 * share, "cpu.cfs_quota_us": 1000} {
		if err := os.WriteFile(filepath.Join(group, name), []byte(strconv.Itoa(value)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
