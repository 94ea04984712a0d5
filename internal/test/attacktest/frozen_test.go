package attacktest_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gatehouse/internal/fault"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/test/need"
)

// What was possible: a card that hung without an error (here a file system that is
// frozen) starved the watchdog, and the service manager killed a gateway that was
// opening doors. And what happened meanwhile stood nowhere: outcomes and presence were
// lost with the process.
func TestAttack_frozenDisk_watchdog(t *testing.T) {
	disk := freezable(t)
	if disk == nil {
		return
	}
	signs := watchdog(t)
	p := gatewaytest.Exec(t, gatewaytest.Launch{
		Data: filepath.Join(disk.Dir, "data"),
		Env: []string{
			"NOTIFY_SOCKET=" + signs.path, "WATCHDOG_USEC=" + strconv.Itoa(int(watchdogPatience.Microseconds())),
		},
	})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	first := answering(p, issued.MQTT)
	p.AwaitOnline(1042, true)
	thaw := freeze(t, disk.Dir)
	const unlocks = 7
	for range unlocks {
		if !p.Unlock(access, issued.StationToken) {
			t.Error("the door did not open while the disk hangs")
		}
	}
	first.Close()
	p.AwaitOnline(1042, false)
	fed := signs.alive.Load()
	p.Await("the watchdog is fed for three times its patience", func() bool { return signs.alive.Load() >= fed+3*6 })
	p.Await("intents, outcomes and presence are in the system log", func() bool {
		intents, outcomes, offline := 0, 0, false
		for line := range strings.Lines(p.Log()) {
			if !strings.Contains(line, "record kept in memory") {
				continue
			}
			switch {
			case strings.Contains(line, "outcome=requested"):
				intents++
			case strings.Contains(line, "outcome=acknowledged"):
				outcomes++
			case strings.Contains(line, "kind=station-offline"):
				offline = true
			}
		}
		return intents == unlocks && outcomes == unlocks && offline
	})
	status, err := p.Admin.Status(t.Context())
	if err != nil || len(status.Conditions) == 0 || status.Conditions[0].Code != "storage-failing" || !status.Ready {
		t.Errorf("status %+v, %v; want storage-failing first, and ready", status, err)
	}
	thaw()
	p.Await("every record is in the journal", func() bool {
		intents, outcomes := 0, 0
		for _, r := range p.Records() {
			switch r.Outcome {
			case "requested":
				intents++
			case "acknowledged":
				outcomes++
			}
		}
		return intents == unlocks && outcomes == unlocks
	})
}

// What was possible: a start on a disk that hung bound no port and said nothing, until the
// service manager killed it, again and again. Now it says why within 5 s, and goes on as
// soon as the disk answers.
func TestAttack_frozenDisk_start(t *testing.T) {
	disk := freezable(t)
	if disk == nil {
		return
	}
	const base = "http://127.0.0.1:18080"
	p := gatewaytest.Exec(t, gatewaytest.Launch{
		Data: filepath.Join(disk.Dir, "data"), Env: []string{"GATEHOUSE_HTTP_LISTEN=127.0.0.1:18080"},
	})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	p.Kill()
	thaw := freeze(t, disk.Dir)
	p.Start()
	p.HTTP = base
	var ready string
	p.Await("the gateway says why it is not ready", func() bool {
		status, body := get(t, base+"/readyz")
		ready = body
		return status == http.StatusServiceUnavailable
	})
	if !strings.Contains(ready, "storage-unresponsive") {
		t.Errorf("readyz: %s", ready)
	}
	if status, body := get(t, base+"/healthz"); status != http.StatusOK {
		t.Errorf("healthz: %d %s", status, body)
	}
	if a := p.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil); a.Status != http.StatusServiceUnavailable {
		t.Errorf("an app is answered %d, which may make it forget its tokens", a.Status)
	}
	thaw()
	p.AwaitReady()
	if a := p.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil); a.Status != http.StatusOK {
		t.Errorf("an app is answered %d although the gateway is ready", a.Status)
	}
	answering(p, issued.MQTT)
	p.AwaitOnline(1042, true)
	if !p.Unlock(access, issued.StationToken) {
		t.Error("the door does not open once the disk answers")
	}
}

// What was possible: the request whose change lay in the hands of a disk that hangs was
// never answered, and the removal of a station had every later change wait without end.
// Now a revocation takes effect at once in memory, and every request is answered within
// its deadline (long form).
func TestAttack_frozenDisk_changes(t *testing.T) {
	disk := freezable(t)
	if disk == nil {
		return
	}
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: filepath.Join(disk.Dir, "data")})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, refresh := p.Login()
	revoked, removed := make(chan int, 1), make(chan error, 1)
	thaw := freeze(t, disk.Dir)
	go func() { revoked <- p.Do(http.MethodPost, "/v1/auth/revoke", "", tokenBody(t, refresh)).Status }()
	p.Await("the session is dead", func() bool {
		return p.Do(http.MethodGet, "/v1/stations/"+issued.StationToken, access, nil).Status == http.StatusUnauthorized
	})
	go func() { removed <- p.Admin.RemoveStation(t.Context(), 1042) }()
	if gatewaytest.Torture() {
		// Bounded, because a test that ends by force leaves a frozen disk behind, at which
		// every later mount of the machine hangs.
		p.Await("the revocation is answered", func() bool { return len(revoked) > 0 })
		p.Await("the removal is answered", func() bool { return len(removed) > 0 })
		if status := <-revoked; status != http.StatusServiceUnavailable {
			t.Errorf("a revocation that cannot be stored is answered %d", status)
		}
		if err := <-removed; !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Timeout) {
			t.Errorf("a removal that cannot be stored: %v", err)
		}
		thaw()
		return
	}
	thaw()
	// Where the disk hung for longer than the deadline of the request, the answer says so.
	if status := <-revoked; status != http.StatusOK && status != http.StatusServiceUnavailable {
		t.Errorf("the revocation is answered %d", status)
	}
	if err := <-removed; err != nil && !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Timeout) {
		t.Errorf("the removal: %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	p.Start()
	p.AwaitReady()
	if a := p.Do(http.MethodPost, "/v1/auth/refresh", "", tokenBody(t, refresh)); a.Status != http.StatusUnauthorized {
		t.Errorf("the session that was revoked is answered %d after a restart", a.Status)
	}
	if stations, err := p.Admin.Stations(t.Context()); err != nil || len(stations) > 0 {
		t.Errorf("after a restart there are %v, %v", stations, err)
	}
}

// freezable returns a disk in the namespaces of the test, and nil outside.
func freezable(t *testing.T) *gatewaytest.Disk {
	t.Helper()
	need.Root(t)
	if !isolated(t, "mke2fs") {
		return nil
	}
	return gatewaytest.NewDisk(t)
}

// What was possible: only the opening of the database was guarded. A disk that began to
// hang a moment later, here at the key of access tokens (a FIFO that nobody writes to) and
// then at the administration socket, left a start that bound no port and said nothing.
func TestAttack_frozenDisk_everyStep(t *testing.T) {
	disk := freezable(t)
	if disk == nil {
		return
	}
	signs := watchdog(t)
	data := filepath.Join(disk.Dir, "data")
	p := gatewaytest.Exec(t, gatewaytest.Launch{Data: data, Env: []string{
		"NOTIFY_SOCKET=" + signs.path, "GATEHOUSE_HTTP_LISTEN=127.0.0.1:18081", "GATEHOUSE_HTTP_TLS_LISTEN=127.0.0.1:18443",
	}})
	p.AddAccount()
	issued := p.Enrol(1042)
	access, _ := p.Login()
	p.Kill()
	path := filepath.Join(data, "token.key")
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	waits := func(step string) {
		t.Helper()
		for _, url := range []string{"http://127.0.0.1:18081/readyz", "https://127.0.0.1:18443/readyz"} {
			p.Await(url+" says that the start waits while "+step, func() bool {
				status, body := get(t, url)
				return status == http.StatusServiceUnavailable && strings.Contains(body, "storage-unresponsive") && strings.Contains(body, step)
			})
		}
	}
	p.Start()
	waits("reading keys")
	if err := p.Stop(); err != nil {
		t.Errorf("SIGTERM while the start waits: %v", err)
	}
	asked := signs.extended.Load()
	p.Start()
	waits("reading keys")
	p.Await("the service manager is asked for patience", func() bool { return signs.extended.Load() > asked })
	fifo, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	thaw := freeze(t, disk.Dir)
	_, err = fifo.Write(key)
	if err := errors.Join(err, fifo.Close()); err != nil {
		t.Fatal(err)
	}
	waits("creating the administration socket")
	thaw()
	p.HTTP = "http://127.0.0.1:18081"
	p.AwaitReady()
	answering(p, issued.MQTT)
	p.AwaitOnline(1042, true)
	if !p.Unlock(access, issued.StationToken) {
		t.Error("the door does not open once the disk answers")
	}
}

// get returns status and body; status 0: nobody answers.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: await.Patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // its certificate is tested elsewhere
	}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

const watchdogPatience = 2 * time.Second

// manager stands for the service manager: it counts the signs of life, and the requests
// for more time to start.
type manager struct {
	path            string
	alive, extended atomic.Int64
}

func watchdog(t *testing.T) *manager {
	t.Helper()
	m := &manager{path: filepath.Join(t.TempDir(), "notify")}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for b := make([]byte, 4096); ; {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			if strings.Contains(string(b[:n]), "WATCHDOG=1") {
				m.alive.Add(1)
			}
			if strings.Contains(string(b[:n]), "EXTEND_TIMEOUT_USEC=") {
				m.extended.Add(1)
			}
		}
	}()
	return m
}

// From linux/fs.h.
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// freeze has every write to a file system wait until thaw is called, or the test ends.
func freeze(t *testing.T, dir string) (thaw func()) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.IoctlSetInt(fd, fiFreeze, 0); err != nil {
		t.Fatal(err)
	}
	frozen := true
	thaw = func() {
		if frozen {
			frozen = false
			if err := unix.IoctlSetInt(fd, fiThaw, 0); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(thaw)
	return thaw
}
