//go:build board

package boardtest_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"gatehouse/internal/door/stationsim"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

const (
	perSecond = 200 // unlocks
	underWay  = 200 // at most; fewer than the requests that a gateway takes at once
	doors     = 50
	restarts  = 3
	mostKeyed = 900 // unlocks with an Idempotency-Key: an account has 1,000 in ten minutes
)

// Restarts under load: nobody is refused or left without an answer, and what was
// answered with success has opened a lock, once.
func TestRestart_underLoad(t *testing.T) {
	oneDebianAfterTheOther(t, func(t *testing.T, suite string) {
		b := installed(t, suite)
		b.allowUnlocks()
		b.sh("systemctl reload " + service)
		l := b.newLoad()
		for _, d := range l.doors {
			d.start(b.trusting(b.authority()))
		}
		l.awaitStations()
		stop := l.start()
		for range restarts {
			l.awaitSuccesses(2 * perSecond)
			before := b.number(service, "MainPID")
			b.sh("systemctl restart " + service)
			b.awaitActive(before)
			l.awaitStations()
		}
		l.awaitSuccesses(perSecond)
		stop()
		l.judge()
		if n := b.number(service, "NRestarts"); n != 0 {
			t.Errorf("the gateway ended by itself %d times", n)
		}
	})
}

// load is many apps that open many doors all the time.
type load struct {
	b     *board
	doors []*door
	apps  []app

	successes, keyed atomic.Int64

	mu       sync.Mutex // guards the fields below
	sent     int
	faults   []string
	answered []reply
}

// app is one kind of client on one machine.
type app struct {
	name   string
	client *http.Client
	// keyed says that each unlock has an Idempotency-Key, with which clients repeat
	// what went out on a connection that the server was about to close: HTTP/1.1 has
	// a kept connection no other way (RFC 9112, section 9.3.1).
	keyed bool
}

// reply is one answer with its door.
type reply struct {
	door    *door
	command site.CommandID
	success bool
}

// newLoad makes the doors, and apps of every kind on several machines: some make a
// connection for each request, some keep theirs, some speak HTTP/2.
func (b *board) newLoad() *load {
	b.Helper()
	l := &load{b: b, doors: b.newDoors(doors)}
	for i := range 4 {
		from := b.here[:strings.LastIndex(b.here, ".")] + ".1" + strconv.Itoa(i)
		b.must(command("ip", "address", "add", from+"/24", "dev", b.cable))
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		for _, a := range []app{
			{"new connections", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, false},
			{"kept connections", &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, true},
			{"HTTP/2", &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true}}, false},
		} {
			transport := a.client.Transport.(*http.Transport)
			transport.TLSClientConfig, transport.DialContext = b.trusting(b.authority()), dialer.DialContext
			a.client.Timeout = await.Patience
			l.apps = append(l.apps, a)
		}
	}
	return l
}

// newDoors makes the account and many stations, from 1001 on.
func (b *board) newDoors(n int) []*door {
	b.Helper()
	all := make([]*door, n)
	var file strings.Builder
	fmt.Fprintf(&file, "[[account]]\nemail = %q\npassword = %q\n", email, password)
	for i := range all {
		id := site.StationID(1001 + i)
		d := b.unknownDoor()
		d.issued.StationID, d.issued.StationToken = id, fmt.Sprintf("example-token-of-%d-north", id)
		d.issued.MQTT.Password = fmt.Sprintf("EXAMPLESECRETOF%dNORTH22", id)
		fmt.Fprintf(&file, "[[station]]\nid = %d\nlocks = 2\ntoken = %q\nsecret = %q\n", id, d.issued.StationToken, d.issued.MQTT.Password)
		fmt.Fprintf(&file, "[[grant]]\naccount = %q\nstations = [%d]\n", email, id)
		all[i] = d
	}
	b.write("/root/site.toml", file.String())
	b.sh("gatehouse apply /root/site.toml")
	all[0].trust(b.authority())
	all[0].login()
	for _, d := range all[1:] {
		d.client, d.access = all[0].client, all[0].access
	}
	return all
}

// awaitStations waits until every station is connected.
func (l *load) awaitStations() {
	l.b.Helper()
	for _, d := range l.doors {
		await.Until(l.b, "the station is connected", func() bool { return d.station.Status().Connected })
	}
}

// awaitSuccesses waits for so many more unlocks.
func (l *load) awaitSuccesses(more int64) {
	l.b.Helper()
	wanted := l.successes.Load() + more
	await.Until(l.b, fmt.Sprintf("%d more unlocks have succeeded", more), func() bool { return l.successes.Load() >= wanted })
}

// start begins to unlock; stop ends it, and waits for the last answer.
func (l *load) start() (stop func()) {
	ctx, cancel := context.WithCancel(l.b.Context())
	var unlocks errgroup.Group
	unlocks.SetLimit(underWay)
	var feeder sync.WaitGroup
	feeder.Go(func() {
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
				unlocks.Go(func() error { l.unlock(i); return nil })
			case <-ctx.Done():
				return
			}
		}
	})
	stop = func() {
		cancel()
		feeder.Wait()
		_ = unlocks.Wait()
	}
	l.b.Cleanup(stop)
	return stop
}

// unlock is what the i-th request does.
func (l *load) unlock(i int) {
	d, a := l.doors[i%len(l.doors)], l.apps[i%len(l.apps)]
	request := request{
		method: http.MethodPost, url: "https://" + l.b.address + d.unlockPath(1+i/len(l.doors)%2), bearer: d.access,
	}
	if a.keyed {
		if l.keyed.Add(1) > mostKeyed {
			return // on a slow machine
		}
		request.key = "unlock-" + strconv.Itoa(i)
	}
	began := time.Now()
	got, err := request.send(a.client)
	success := err == nil && strings.Contains(string(got.body), "true")
	if success {
		l.successes.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if err != nil || got.status != http.StatusOK {
		l.faults = append(l.faults, fmt.Sprintf("%s, %s: %d %s %v", began.UTC().Format("15:04:05.000000"), a.name, got.status, got.body, err))
		return
	}
	l.answered = append(l.answered, reply{d, got.command, success})
}

// judge holds the answers against what the stations did.
func (l *load) judge() {
	l.b.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Logf("%d unlocks, %d of them with success", l.sent, l.successes.Load())
	for i, fault := range l.faults {
		if i < 10 {
			l.b.Errorf("no proper answer: %s", fault)
		}
	}
	if len(l.faults) > 0 {
		l.b.Errorf("%d requests of %d had no proper answer", len(l.faults), l.sent)
	}
	for _, r := range l.answered {
		if r.success {
			await.Until(l.b, "the lock is open", func() bool { return r.door.openings(r.command) > 0 })
		}
		if n := r.door.openings(r.command); n > 1 {
			l.b.Errorf("one unlock opened its lock %d times", n)
		}
	}
	for _, d := range l.doors {
		if n := d.count(stationsim.Repeated); n > 0 {
			l.b.Errorf("station %d got %d commands twice", d.issued.StationID, n)
		}
	}
}
