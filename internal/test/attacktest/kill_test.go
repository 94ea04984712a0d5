package attacktest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gatehouse/internal/record/sqlite"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
	"gatehouse/internal/test/brokertest"
	"gatehouse/internal/test/gatewaytest"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

const (
	killStations = 4
	killClients  = 8
	// killsVariable sets how often the gateway is killed; "make campaign NAME=kills" asks
	// for many more than the 40 of every check.
	killsVariable = "GATEHOUSETEST_KILLS"
)

// killed is a gateway's real binary that is killed again and again under load,
// with what its clients and stations have seen.
type killed struct {
	t       *testing.T
	binary  string
	env     []string
	data    string
	base    string
	mqtt    string
	admin   *client.Client
	process *exec.Cmd
	log     *os.File
	bearer  string
	issued  []adminapi.IssuedStation

	mu       sync.Mutex      // mu guards what follows
	answered map[string]bool // commands whose client was told success
	opened   map[string]bool // commands that a station has acted on
	trigger  int             // how many more openings until the kill
	fire     chan struct{}   // closed at the kill's moment
}

// SIGKILL under load, again and again: after each restart the database is sound,
// every unlock that was answered success:true is in the journal, and no lock has
// opened without a record.
func TestAttack_killUnderLoad(t *testing.T) {
	kills := 40
	if text := os.Getenv(killsVariable); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s=%q: %v", killsVariable, text, err)
		}
	}
	k := prepareKilled(t)
	stations, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, issued := range k.issued {
		all.Go(func() { k.beStation(stations, issued) })
	}
	defer all.Wait()
	defer stop()
	journalled := map[string]bool{}
	var after uint64
	for round := range kills {
		k.arm(1 + rand.IntN(60)) //nolint:gosec // no secret
		k.load()
		k.kill()
		verdict, err := sqlite.Files{}.Verify(t.Context(), filepath.Join(k.data, "gatehouse.db"))
		if err != nil || verdict.Broken != 0 {
			t.Fatalf("after kill %d: %+v, %v", round+1, verdict, err)
		}
		k.start()
		after = k.readJournal(after, journalled)
		k.compare(round+1, journalled)
	}
	k.kill()
	t.Logf("%d kills, %d doors opened, %d answered success, %d commands in the journal",
		kills, len(k.opened), len(k.answered), len(journalled))
	if len(k.answered) < kills/2 {
		t.Errorf("only %d unlocks were answered success in %d rounds: the load is too thin to tell anything", len(k.answered), kills)
	}
}

func prepareKilled(t *testing.T) *killed {
	t.Helper()
	dir := t.TempDir()
	k := &killed{
		t: t, binary: gatewaytest.Binary(t), data: filepath.Join(dir, "data"),
		answered: map[string]bool{}, opened: map[string]bool{},
	}
	// It must come back on the same addresses: its stations know no others.
	addresses, err := brokertest.FreeAddresses(2)
	if err != nil {
		t.Fatal(err)
	}
	k.base, k.mqtt = "http://"+addresses[0], addresses[1]
	k.env = append(os.Environ(), "GATEHOUSE_DATA="+k.data, "GATEHOUSE_HTTP_LISTEN="+addresses[0], "GATEHOUSE_MQTT_LISTEN="+addresses[1],
		"GATEHOUSE_UNLOCK_TTL=60s", "GATEHOUSE_UNLOCK_ACCOUNT_RATE=0", "GATEHOUSE_UNLOCK_ACCOUNT_PENDING=0")
	k.admin = client.New(filepath.Join(k.data, "admin.sock"))
	if k.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = k.log.Close()
		if k.process != nil {
			k.kill()
		}
		if log, _ := os.ReadFile(k.log.Name()); t.Failed() {
			t.Logf("%s", log)
		}
	})
	k.start()
	k.provision()
	return k
}

func (k *killed) start() {
	k.t.Helper()
	k.process = exec.Command(k.binary, "serve") //nolint:noctx // ended by kill
	k.process.Env, k.process.Stderr, k.process.Stdout = k.env, k.log, k.log
	k.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := k.process.Start(); err != nil {
		k.t.Fatal(err)
	}
	await.Until(k.t, "the gateway is ready", func() bool {
		status, err := k.admin.Status(k.t.Context())
		return err == nil && status.Ready
	})
}

func (k *killed) kill() {
	_ = k.process.Process.Kill()
	_ = k.process.Wait()
	k.process = nil
}

func (k *killed) provision() {
	k.t.Helper()
	ctx := k.t.Context()
	if _, err := k.admin.AddAccount(ctx, adminapi.NewAccount{Email: gatewaytest.Email, Password: gatewaytest.Password}); err != nil {
		k.t.Fatal(err)
	}
	for i := range killStations {
		issued, err := k.admin.AddStation(ctx, adminapi.NewStation{StationID: site.StationID(i + 1), Locks: 1})
		if err != nil {
			k.t.Fatal(err)
		}
		if _, err := k.admin.Grant(ctx, gatewaytest.Email, issued.StationID.String(), adminapi.GrantTerms{}); err != nil {
			k.t.Fatal(err)
		}
		k.issued = append(k.issued, issued)
	}
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, gatewaytest.Email, gatewaytest.Password)
	resp, err := http.Post(k.base+"/v1/auth/login", "application/json", strings.NewReader(body)) //nolint:noctx // a test
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var tokens struct{ AccessToken string }
	if err := json.NewDecoder(resp.Body).Decode(&tokens); err != nil || tokens.AccessToken == "" {
		k.t.Fatalf("login: %d, %v", resp.StatusCode, err)
	}
	k.bearer = tokens.AccessToken
}

// arm sets the next kill's moment: when that many doors have opened.
func (k *killed) arm(openings int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trigger, k.fire = openings, make(chan struct{})
}

// beStation is hardware: it reconnects for ever, opens first and acknowledges then.
func (k *killed) beStation(ctx context.Context, issued adminapi.IssuedStation) {
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for ctx.Err() == nil {
		conn, err := net.Dial("tcp", k.mqtt) //nolint:noctx // a test
		if err != nil {
			<-pause.C
			continue
		}
		release := context.AfterFunc(ctx, func() { _ = conn.Close() })
		s := &gatewaytest.Station{T: k.t, Conn: conn, Login: issued.MQTT, Version: 4}
		if err := s.TryOpen(1); err == nil {
			for {
				c, err := s.NextCommand()
				if err != nil {
					break
				}
				k.open(c.ID)
				if err := s.TryAck(c); err != nil {
					break
				}
			}
		}
		release()
		_ = conn.Close()
	}
}

func (k *killed) open(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.opened[id] {
		k.t.Errorf("command %s opened a door twice", id)
	}
	k.opened[id] = true
	if k.trigger--; k.trigger == 0 {
		close(k.fire)
	}
}

// load lets clients unlock until the kill's moment.
func (k *killed) load() {
	k.mu.Lock()
	fire := k.fire
	k.mu.Unlock()
	ctx, cancel := context.WithCancel(k.t.Context())
	defer cancel()
	var clients sync.WaitGroup
	for i := range killClients {
		clients.Go(func() {
			for ctx.Err() == nil {
				k.unlock(ctx, k.issued[i%killStations].StationToken)
			}
		})
	}
	await.Receive(k.t, "the doors open", fire)
	_ = k.process.Process.Kill() // in the middle of it all
	cancel()
	clients.Wait()
}

func (k *killed) unlock(ctx context.Context, token string) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, k.base+"/v1/stations/"+token+"/locks/1/unlock", nil)
	if err != nil {
		k.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+k.bearer)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // killed
	}
	defer func() { _ = resp.Body.Close() }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil || !strings.Contains(body.String(), "true") {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answered[resp.Header.Get("Gatehouse-Command")] = true
}

// readJournal adds the commands of the new records.
func (k *killed) readJournal(after uint64, journalled map[string]bool) uint64 {
	k.t.Helper()
	for r, err := range k.admin.Journal(k.t.Context(), client.JournalQuery{After: after}) {
		if err != nil {
			k.t.Fatal(err)
		}
		if r.Seq != after+1 {
			k.t.Errorf("record %d follows %d", r.Seq, after)
		}
		after = r.Seq
		if r.Kind == site.KindUnlock {
			journalled[string(r.Command)] = true
		}
	}
	return after
}

func (k *killed) compare(round int, journalled map[string]bool) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.opened {
		if !journalled[id] {
			k.t.Fatalf("after kill %d: command %s opened a door and has no record", round, id)
		}
	}
	for id := range k.answered {
		if !journalled[id] {
			k.t.Fatalf("after kill %d: command %s was answered success and has no record", round, id)
		}
	}
}
