package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// recordSize is how many bytes the floor makes durable per unlock: about one
// journal record.
const recordSize = 200

// okBody is the answer of the floor and the rival, as the gateway's.
const okBody = `{"success":true}` + "\n"

// serverJob is the first word to a server role.
type serverJob struct {
	File    string      // the floor's log, the rival's database
	Peers   int         // the floor: how many raw TCP peers will connect
	Broker  string      // the rival: the address of Mosquitto
	Headers http.Header // the bare handler: what it sets
	Body    []byte      // the bare handler: what it writes
}

// serverAddresses is what a server role says once it listens.
type serverAddresses struct {
	HTTP  string
	Peers string // the floor: where its peers connect
}

// runFloor is the role of the floor: the least that an unlock can cost in Go. A
// bare net/http handler makes 200 bytes durable (group commit) and asks a peer
// over raw TCP. No MQTT, no token, no SQL.
func runFloor(b *boss) error {
	var job serverJob
	if err := b.receive(&job); err != nil {
		return err
	}
	file, err := os.OpenFile(job.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer file.Close()
	gather, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for peers: %w", err)
	}
	defer gather.Close()
	f := &floor{log: newCommitLog(file), peers: make([]atomic.Pointer[peer], job.Peers)}
	go f.log.write()
	go f.gather(gather)
	return serveHTTP(b, f, serverAddresses{Peers: gather.Addr().String()})
}

// serveHTTP serves handler on a free port, tells the addresses and goes on until
// the harness is done with it.
func serveHTTP(b *boss, handler http.Handler, addresses serverAddresses) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: handler}
	defer server.Close()
	go server.Serve(listener)
	addresses.HTTP = listener.Addr().String()
	if err := b.answer(addresses); err != nil {
		return err
	}
	return b.dismissed()
}

// floor answers unlocks.
type floor struct {
	log   *commitLog
	peers []atomic.Pointer[peer] // by the number in the path
}

// gather takes the peers in. Each says its number in its first line.
func (f *floor) gather(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go f.take(conn)
	}
}

func (f *floor) take(conn net.Conn) {
	in := bufio.NewReaderSize(conn, 512)
	line, err := in.ReadSlice('\n')
	n := number(line[:max(len(line)-1, 0)])
	if err != nil || n < 0 || n >= len(f.peers) {
		conn.Close()
		return
	}
	p := &peer{conn: conn, line: []byte("unlock 1\n"), waiting: make(chan chan error, 1024)}
	f.peers[n].Store(p)
	_, _ = conn.Write([]byte("\n")) // taken
	p.read(in)
}

// ServeHTTP makes the record durable and then asks the peer that the path names.
func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, err := f.peer(r.URL.Path)
	if err == nil {
		err = f.log.append(floorRecord(r.URL.Path))
	}
	if err == nil {
		err = p.ask()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = w.Write([]byte(okBody))
}

func (f *floor) peer(path string) (*peer, error) {
	n, err := stationInPath(path)
	if err != nil {
		return nil, err
	}
	if n < 0 || n >= len(f.peers) {
		return nil, errors.New("no such peer")
	}
	p := f.peers[n].Load()
	if p == nil {
		return nil, errors.New("the peer has not connected")
	}
	return p, nil
}

// stationInPath reads the number out of /v1/stations/<number>/locks/…, the
// path that the floor and the rival are asked with.
func stationInPath(path string) (int, error) {
	rest, _ := strings.CutPrefix(path, "/v1/stations/")
	digits, _, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0, fmt.Errorf("reading the station in the path: %w", err)
	}
	return n, nil
}

func floorRecord(path string) *[recordSize]byte {
	var record [recordSize]byte
	copy(record[:], path)
	record[recordSize-1] = '\n'
	return &record
}

// commitLog appends records durably, with group commit: one goroutine takes
// whatever has gathered while it was writing, writes it at once, flushes it at
// once and wakes everyone. append is safe for concurrent use.
type commitLog struct {
	file *os.File
	work chan struct{} // capacity 1: there is something to write

	mu    sync.Mutex
	batch *batch // mu guards batch, the one that is gathering
}

type batch struct {
	data []byte
	err  error         // set before done is closed
	done chan struct{} // closed when data is durable, or cannot be made so
}

func newCommitLog(file *os.File) *commitLog {
	return &commitLog{file: file, work: make(chan struct{}, 1), batch: newBatch()}
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

// append returns when the record is on the disk.
func (l *commitLog) append(record *[recordSize]byte) error {
	l.mu.Lock()
	mine := l.batch
	mine.data = append(mine.data, record[:]...)
	l.mu.Unlock()
	select {
	case l.work <- struct{}{}:
	default:
	}
	<-mine.done
	return mine.err
}

// write is the one writer; it goes on as long as the process.
func (l *commitLog) write() {
	for range l.work {
		l.mu.Lock()
		full := l.batch
		l.batch = newBatch()
		l.mu.Unlock()
		if len(full.data) > 0 {
			if _, full.err = l.file.Write(full.data); full.err == nil {
				full.err = unix.Fdatasync(int(l.file.Fd()))
			}
		}
		close(full.done)
	}
}

// peer is one raw TCP connection to a pretended station. One line asks, one line
// answers; answers come in the order of the questions.
type peer struct {
	conn    net.Conn
	line    []byte
	mu      sync.Mutex      // mu keeps the order of waiting that of the lines written
	waiting chan chan error // who asked, oldest first
}

// ask sends the line and waits for the answer. Safe for concurrent use.
func (p *peer) ask() error {
	answered := make(chan error, 1)
	p.mu.Lock()
	p.waiting <- answered
	_, err := p.conn.Write(p.line)
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("asking the peer: %w", err)
	}
	return <-answered
}

// read wakes the callers, in order, until the connection ends.
func (p *peer) read(in *bufio.Reader) {
	for {
		_, err := in.ReadSlice('\n')
		if err != nil {
			for {
				(<-p.waiting) <- fmt.Errorf("hearing the peer: %w", err)
			}
		}
		(<-p.waiting) <- nil
	}
}
