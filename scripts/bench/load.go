package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// loadJob is one measurement: so many clients, each on one kept-alive
// connection, asking again as soon as it is answered.
type loadJob struct {
	Address  string
	Requests [][]byte      // one per station; each client keeps to its share of them
	Want     string        // what every good body contains
	Clients  int           // connections
	LeadIn   time.Duration // runs before the window and is not counted
	Window   time.Duration // what is counted
	PIDs     []int         // the processes of the server, for CPU and written bytes
}

// loadResult is what one measurement gave. Only requests that were sent and
// answered well within the window are in the figures.
type loadResult struct {
	Done      int           `json:"done"`
	Failed    int           `json:"failed"`
	Failure   string        `json:"failure,omitempty"` // the first
	PerSecond float64       `json:"perSecond"`
	P50       time.Duration `json:"p50ns"`
	P99       time.Duration `json:"p99ns"`
	CPU       float64       `json:"cpuMicros"`    // microseconds of the server per request
	Written   float64       `json:"writtenBytes"` // bytes to disk of the server per request
}

// answerPatience is how long a client waits for one answer.
const answerPatience = 15 * time.Second

// runLoad is the role of the load generator: one job after the other.
func runLoad(b *boss) error {
	for {
		var job loadJob
		if err := b.receive(&job); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := b.answer(job.run()); err != nil {
			return err
		}
	}
}

// run measures once.
func (j *loadJob) run() loadResult {
	clients := make([]*client, j.Clients)
	for i := range clients {
		clients[i] = &client{job: j, taken: make([]time.Duration, 0, 1<<16)}
		for n := i; n < max(len(j.Requests), i+1); n += j.Clients {
			clients[i].requests = append(clients[i].requests, j.Requests[n%len(j.Requests)])
		}
		if err := clients[i].dial(); err != nil {
			return loadResult{Failed: 1, Failure: err.Error()}
		}
		defer clients[i].conn.Close()
	}
	from := time.Now().Add(j.LeadIn)
	until := from.Add(j.Window)
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { c.run(from, until) })
	}
	time.Sleep(time.Until(from))
	before := takeUsage(j.PIDs)
	time.Sleep(time.Until(until))
	after := takeUsage(j.PIDs)
	all.Wait()
	return j.sum(clients, after.since(before))
}

// sum makes one result of what the clients saw. The usage was taken over
// nearly, not exactly, the window: so rates are divided, not totals.
func (j *loadJob) sum(clients []*client, used usageRate) loadResult {
	var r loadResult
	var taken []time.Duration
	for _, c := range clients {
		taken = append(taken, c.taken...)
		r.Failed += c.failed
		if r.Failure == "" {
			r.Failure = c.failure
		}
	}
	r.Done = len(taken)
	if r.Done == 0 {
		return r
	}
	slices.Sort(taken)
	r.P50, r.P99 = percentile(taken, 50), percentile(taken, 99)
	r.PerSecond = float64(r.Done) / j.Window.Seconds()
	r.CPU = used.cpu * 1e6 / r.PerSecond
	r.Written = used.written / r.PerSecond
	return r
}

// client is one connection and the one goroutine that uses it.
type client struct {
	job      *loadJob
	requests [][]byte
	conn     net.Conn
	in       *bufio.Reader
	body     []byte
	taken    []time.Duration
	failed   int
	failure  string
}

func (c *client) dial() error {
	conn, err := net.Dial("tcp", c.job.Address)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	c.conn, c.in = conn, bufio.NewReaderSize(conn, 4<<10)
	return conn.SetDeadline(time.Now().Add(c.job.LeadIn + c.job.Window + answerPatience))
}

// run asks until the window is over. A broken connection ends the client; a bad
// answer is counted and the client goes on.
func (c *client) run(from, until time.Time) {
	want := []byte(c.job.Want)
	started := time.Now()
	for n := 0; started.Before(until); n++ {
		good, err := c.do(c.requests[n%len(c.requests)], want)
		if err != nil {
			c.fail(err.Error())
			return
		}
		ended := time.Now()
		if good && !started.Before(from) && !ended.After(until) {
			c.taken = append(c.taken, ended.Sub(started))
		}
		started = ended
	}
}

// do sends one request and reads its answer; good means status 200 and the
// wanted body.
func (c *client) do(request, want []byte) (good bool, err error) {
	if _, err := c.conn.Write(request); err != nil {
		return false, fmt.Errorf("sending: %w", err)
	}
	status, body, err := readResponse(c.in, c.body[:0])
	if err != nil {
		return false, fmt.Errorf("reading the answer: %w", err)
	}
	c.body = body
	if status != 200 || !bytes.Contains(body, want) {
		c.fail(fmt.Sprintf("status %d: %.100q", status, body))
		return false, nil
	}
	return true, nil
}

func (c *client) fail(why string) {
	c.failed++
	if c.failure == "" {
		c.failure = why
	}
}

// readResponse reads one HTTP/1.1 response with a Content-Length, the only kind
// that the measured answers have, into body. It parses no more than it must, so
// that the load costs little and the same for every server.
func readResponse(in *bufio.Reader, body []byte) (status int, _ []byte, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, body, err
	}
	if len(line) < 12 || string(line[:9]) != "HTTP/1.1 " {
		return 0, body, fmt.Errorf("not an HTTP/1.1 status line: %.40q", line)
	}
	status = number(line[9:12])
	length := -1
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return 0, body, err
		}
		if len(line) <= 2 {
			break
		}
		const name = "content-length:"
		if len(line) > len(name) && line[0]|0x20 == 'c' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			length = number(bytes.TrimSpace(line[len(name):]))
		}
	}
	if length < 0 || status < 0 {
		return 0, body, errors.New("no status or no Content-Length")
	}
	body = slices.Grow(body, length)[:length]
	_, err = io.ReadFull(in, body)
	return status, body, err
}

// number reads a plain decimal number, -1 if it is none.
func number(digits []byte) int {
	n := 0
	for _, d := range digits {
		if d < '0' || d > '9' || n > 1<<30 {
			return -1
		}
		n = n*10 + int(d-'0')
	}
	return n
}

// percentile returns the p-th percentile, by nearest rank, of sorted values.
func percentile(sorted []time.Duration, p int) time.Duration {
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}
