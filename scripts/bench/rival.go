package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	_ "modernc.org/sqlite" // the rival's database driver
)

// rivalPatience is how long the rival waits for a station, and for its broker.
const rivalPatience = 5 * time.Second

// errNoMosquitto says that this machine has no Mosquitto to compare with.
var errNoMosquitto = errors.New("mosquitto is not installed (Debian: apt-get install mosquitto)")

// runRival is the role of the rival: what a capable team puts together from
// parts. A service on paho beside Mosquitto, one durable SQLite insert for each
// unlock, no token, no outcome written.
func runRival(b *boss) error {
	var job serverJob
	if err := b.receive(&job); err != nil {
		return err
	}
	r := &rival{pending: map[string]chan struct{}{}}
	if err := r.openDatabase(job.File); err != nil {
		return err
	}
	defer r.db.Close()
	if err := r.connect(job.Broker); err != nil {
		return err
	}
	defer r.client.Disconnect(0)
	return serveHTTP(b, r, serverAddresses{})
}

// rival answers unlocks.
type rival struct {
	db     *sql.DB
	insert *sql.Stmt
	client mqtt.Client
	last   atomic.Uint64 // the number of the command made last

	mu      sync.Mutex
	pending map[string]chan struct{} // mu guards pending: who waits for which command
}

// openDatabase opens one writing connection, as durable as the gateway's.
func (r *rival) openDatabase(path string) (err error) {
	r.db, err = sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	r.db.SetMaxOpenConns(1)
	const schema = `CREATE TABLE unlock (seq INTEGER PRIMARY KEY, time INTEGER, command TEXT, station INTEGER, lock TEXT, record BLOB)`
	if _, err := r.db.Exec(schema); err != nil {
		return fmt.Errorf("creating the table: %w", err)
	}
	r.insert, err = r.db.Prepare(`INSERT INTO unlock (time, command, station, lock, record) VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return fmt.Errorf("preparing the insert: %w", err)
	}
	return nil
}

func (r *rival) connect(broker string) error {
	options := mqtt.NewClientOptions().AddBroker("tcp://" + broker).SetClientID("rival").
		SetCleanSession(true).SetAutoReconnect(false).SetOrderMatters(false)
	r.client = mqtt.NewClient(options)
	if err := finished(r.client.Connect()); err != nil {
		return fmt.Errorf("connecting to the broker: %w", err)
	}
	if err := finished(r.client.Subscribe("stations/+/result", 1, r.result)); err != nil {
		return fmt.Errorf("subscribing to results: %w", err)
	}
	return nil
}

func finished(token mqtt.Token) error {
	if !token.WaitTimeout(rivalPatience) {
		return context.DeadlineExceeded
	}
	return token.Error()
}

// result wakes the waiter of the command.
func (r *rival) result(_ mqtt.Client, message mqtt.Message) {
	id := string(fieldOf(message.Payload(), "id"))
	r.mu.Lock()
	waiter := r.pending[id]
	delete(r.pending, id)
	r.mu.Unlock()
	if waiter != nil {
		close(waiter)
	}
}

// ServeHTTP writes the record, sends the command and waits for the result.
func (r *rival) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	station, err := stationInPath(request.URL.Path)
	if err == nil {
		err = r.unlock(station, request.URL.Path)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = w.Write([]byte(okBody))
}

func (r *rival) unlock(station int, path string) error {
	id := strconv.FormatUint(r.last.Add(1), 16)
	record := floorRecord(path)
	if _, err := r.insert.Exec(time.Now().UnixMilli(), id, station, "lock-1", record[:]); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	done := make(chan struct{})
	r.mu.Lock()
	r.pending[id] = done
	r.mu.Unlock()
	r.client.Publish(commandTopic(station), 1, false, `{"id":"`+id+`","command":"unlock","lockId":"lock-1","ttl":5}`)
	deadline := time.NewTimer(rivalPatience)
	defer deadline.Stop()
	select {
	case <-done:
		return nil
	case <-deadline.C:
		r.mu.Lock()
		delete(r.pending, id)
		r.mu.Unlock()
		return errors.New("the station did not answer")
	}
}

// startMosquitto runs Debian's broker on a free port with a configuration of its
// own, as lean as it gets, and waits until it listens.
func startMosquitto(ctx context.Context, dir string) (*child, string, error) {
	binary, err := exec.LookPath("mosquitto")
	if err != nil {
		binary = "/usr/sbin/mosquitto" // not in the path of an ordinary user
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, "", errNoMosquitto
	}
	address, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	_, port, _ := net.SplitHostPort(address)
	config := filepath.Join(dir, "mosquitto.conf")
	text := "listener " + port + " 127.0.0.1\nallow_anonymous true\npersistence false\nlog_type error\n" +
		"set_tcp_nodelay true\nmax_inflight_messages 0\nmax_queued_messages 0\nuser root\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, "", fmt.Errorf("writing the configuration of mosquitto: %w", err)
	}
	broker, err := startChild(ctx, nil, binary, "-c", config)
	if err != nil {
		return nil, "", err
	}
	for deadline := time.Now().Add(rivalPatience); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return broker, address, nil
		}
		if broker.exited() || time.Now().After(deadline) {
			broker.stop()
			return nil, "", fmt.Errorf("mosquitto does not listen: %w: %s", err, broker.log)
		}
	}
}

// freeAddress returns a loopback address that nobody listens on just now.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
