package cloudtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/cloudapp"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

const (
	// cutsVariable sets how often something is cut or killed; "make campaign NAME=cuts" asks
	// for more than the 50 of every check.
	cutsVariable = "GATEHOUSETEST_CUTS"
	// cutRecords is how many records have to come through, at least.
	cutRecords = 10_000
	// cutBacklog is how many of them are there before the cloud is.
	cutBacklog = 7000
)

// board is a gateway's real binary, with what may be done to it.
type board struct {
	t       *testing.T
	binary  string
	data    string
	env     []string
	admin   *client.Client
	process *exec.Cmd
	log     string
}

func newBoard(t *testing.T) *board {
	t.Helper()
	dir := t.TempDir()
	b := &board{t: t, binary: gatewaytest.Binary(t), data: filepath.Join(dir, "data"), log: filepath.Join(dir, "log")}
	b.env = append(os.Environ(), "GATEHOUSE_DATA="+b.data, "GATEHOUSE_HTTP_LISTEN=127.0.0.1:0", "GATEHOUSE_MQTT_LISTEN=127.0.0.1:0", "GATEHOUSE_UNLOCK_TTL=60s")
	b.admin = client.New(filepath.Join(b.data, "admin.sock"))
	t.Cleanup(func() {
		b.kill()
		b.admin.Close()
		if t.Failed() {
			text, _ := os.ReadFile(b.log)
			t.Logf("the end of the gateway's log:\n%s", text[max(0, len(text)-4096):])
		}
	})
	return b
}

// start starts the gateway and returns when it is ready.
func (b *board) start() {
	b.t.Helper()
	log, err := os.OpenFile(b.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.t.Fatal(err)
	}
	defer log.Close()
	b.process = exec.Command(b.binary, "serve")
	b.process.Env, b.process.Stderr, b.process.Stdout = b.env, log, log
	b.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := b.process.Start(); err != nil {
		b.t.Fatal(err)
	}
	await.Until(b.t, "the gateway is ready", func() bool {
		status, err := b.admin.Status(b.t.Context())
		return err == nil && status.Ready
	})
	if _, err := b.admin.AcceptClock(b.t.Context()); err != nil { // no command is carried out by a clock that is not trusted
		b.t.Fatal(err)
	}
}

// kill ends it with SIGKILL.
func (b *board) kill() {
	if b.process != nil {
		_ = b.process.Process.Kill()
		_ = b.process.Wait()
		b.process = nil
	}
}

// fill writes records while the gateway does not run.
func (b *board) fill(records uint64) {
	b.t.Helper()
	ctx := b.t.Context()
	db, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(b.data, "gatehouse.db"), Boot: "backlog", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	db.UseClock(wallClock{})
	for n := db.Latest(); n < records; n++ {
		db.AppendLater(site.Record{Kind: site.KindLockChanged, Facts: site.Facts{Station: 1, Lock: "lock-1", Status: site.Locked}})
		if n%1000 == 0 {
			err = db.Flush(ctx)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	if err := db.Flush(ctx); err != nil {
		b.t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// wallClock is the machine's clock, taken for right.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }
func (wallClock) Trusted() bool  { return true }

// work makes records until stop ends, whatever happens to the gateway meanwhile.
func (b *board) work(stop context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		name := fmt.Sprintf("door %d", n)
		_, _ = b.admin.UpdateStation(stop, 1, adminapi.StationPatch{Name: &name})
		select {
		case <-tick.C:
		case <-stop.Done():
			return
		}
	}
}

// Ten thousand records, while the link is cut in silence and with noise, the broker is
// killed, and the gateway is killed, 24 times at random moments: the application
// gets every record, in order, once; and what waits at the end goes up by itself.
func TestOutbox_everyCut(t *testing.T) {
	cuts := 24
	if text := os.Getenv(cutsVariable); text != "" {
		var err error
		if cuts, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s=%q: %v", cutsVariable, text, err)
		}
	}
	eachBroker(t, func(t *testing.T, broker *brokertest.Broker) {
		b := newBoard(t)
		b.start()
		if _, err := b.admin.AddStation(t.Context(), adminapi.NewStation{StationID: 1, Locks: 1}); err != nil {
			t.Fatal(err)
		}
		b.kill()
		b.fill(cutBacklog)
		proxy := brokertest.NewProxy(t, broker.Address())
		b.env = append(b.env, "GATEHOUSE_CLOUD_URL="+proxy.URL(), "GATEHOUSE_CLOUD_RECORDS_PER_SECOND=2000", "GATEHOUSE_CLOUD_KEEPALIVE=10s")
		a := newApplication(t, cloudapp.Config{Broker: mqttclient.Config{Broker: mqttclient.Broker{URL: broker.URL()}}, Acknowledge: true})
		b.start()
		stop, cancel := context.WithCancel(t.Context())
		var working sync.WaitGroup
		working.Go(func() { b.work(stop, 5*time.Millisecond) })
		cutAll(t, b, broker, proxy, cuts)
		cancel()
		working.Wait()
		proxy.Hold() // so that something is left
		b.produce(cutRecords)
		proxy.Release()
		b.drained(t, a)
	})
}

// produce makes records until there are that many.
func (b *board) produce(records uint64) {
	b.t.Helper()
	stop, cancel := context.WithCancel(b.t.Context())
	var working sync.WaitGroup
	for range 8 {
		working.Go(func() { b.work(stop, time.Nanosecond) })
	}
	for last := uint64(0); last < records; { // each of them may take its time
		await.Until(b.t, "there are more records", func() bool {
			status, err := b.admin.Status(b.t.Context())
			if err != nil || status.Journal.Last <= last {
				return false
			}
			last = status.Journal.Last
			return true
		})
	}
	cancel()
	working.Wait()
}

// cutAll does all that may happen to the way, and every other time kills the gateway.
func cutAll(t *testing.T, b *board, broker *brokertest.Broker, proxy *brokertest.Proxy, cuts int) {
	t.Helper()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	pause := func(most time.Duration) {
		time.Sleep(time.Duration(random.Int64N(int64(most)))) // real time: it draws the moment of the next fault; nothing is expected by its end
	}
	done := make(map[string]int)
	faults := map[string]func(){
		"cut":        proxy.Cut,
		"silence":    func() { proxy.Hold(); pause(time.Second); proxy.Release() },
		"long death": func() { proxy.Hold(); pause(time.Second); proxy.Cut(); proxy.Release() },
		"refused":    func() { proxy.Refuse(true); proxy.Cut(); pause(time.Second); proxy.Refuse(false) },
		"broker killed": func() {
			broker.Kill()
			pause(500 * time.Millisecond)
			if err := broker.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"gateway killed in silence": func() {
			proxy.Hold()
			pause(time.Second)
			b.kill()
			b.start()
			proxy.Release()
		},
	}
	names := []string{"cut", "silence", "long death", "refused", "broker killed", "gateway killed in silence"}
	for n := range cuts {
		name := "gateway killed"
		if n%2 == 0 {
			b.kill()
			b.start()
			b.awaitCloud()
		} else {
			name = names[random.IntN(len(names))]
			faults[name]()
		}
		done[name]++
		pause(500 * time.Millisecond)
	}
	t.Logf("done: %v", done)
}

// drained waits until the gateway has nothing more to send, though nothing happens any
// more, and compares.
func (b *board) drained(t *testing.T, a *application) {
	t.Helper()
	for drained, delivered := false, uint64(0); !drained; { // each step has its time: there is one for every start
		await.Until(t, "more of the backlog has drained", func() bool {
			status, err := b.admin.Status(t.Context())
			if err != nil || status.Cloud == nil {
				return false
			}
			moved := status.Cloud.Delivered > delivered
			drained, delivered = status.Cloud.Waiting == 0, status.Cloud.Delivered
			return drained || moved
		})
	}
	a.stopped()
	next := uint64(1)
	given := of(a.seen(), cloudapp.Record)
	for r, err := range b.admin.Journal(t.Context(), client.JournalQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if next > uint64(len(given)) {
			break
		}
		if got := string(given[next-1].Payload); r.Seq != next || got != string(r.AppendJSON(nil)) {
			t.Fatalf("record %d is %s, and was given as %s", next, r.AppendJSON(nil), got)
		}
		next++
	}
	for _, kind := range []cloudapp.Kind{cloudapp.Gap, cloudapp.Malformed} {
		for _, e := range of(a.seen(), kind) {
			t.Errorf("%s %s %s", e.Kind, e.Payload, e.Detail)
		}
	}
	if next <= cutRecords {
		t.Errorf("%d records were given", next-1)
	}
	t.Logf("%d records came", next-1)
}
