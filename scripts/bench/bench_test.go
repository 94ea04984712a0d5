package main

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The tests of a program cannot be in a package of their own: there is nothing
// exported. They check what the figures rest on, and no time.

func TestReadResponse(t *testing.T) {
	cases := []struct {
		name   string
		text   string
		status int
		body   string
		fails  bool
	}{
		{name: "ok", text: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nokHTTP", status: 200, body: "ok"},
		{name: "lower case", text: "HTTP/1.1 404 Not Found\r\ncontent-length:  0\r\n\r\n", status: 404},
		{name: "no length", text: "HTTP/1.1 200 OK\r\n\r\nok", fails: true},
		{name: "bad length", text: "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", fails: true},
		{name: "cut short", text: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", fails: true},
		{name: "not HTTP", text: "SSH-2.0-nothing\r\n", fails: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			status, body, err := readResponse(bufio.NewReader(strings.NewReader(c.text)), nil)
			if (err != nil) != c.fails {
				t.Fatalf("error %v, fails is %v", err, c.fails)
			}
			if !c.fails && (status != c.status || string(body) != c.body) {
				t.Errorf("%d %q, want %d %q", status, body, c.status, c.body)
			}
		})
	}
}

func TestCommitLog_append(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	log := newCommitLog(file)
	var writer, callers sync.WaitGroup
	writer.Go(log.write)
	for i := range 50 {
		callers.Go(func() {
			path := "/v1/stations/" + strings.Repeat("7", i+1)
			if err := log.append(floorRecord(path)); err != nil {
				t.Error(err)
			}
			written, err := os.ReadFile(file.Name())
			if err != nil || !bytes.Contains(written, []byte(path+"\x00")) {
				t.Errorf("append of %q came back before it was written (%v)", path, err)
			}
		})
	}
	callers.Wait()
	close(log.work)
	writer.Wait()
	if info, err := file.Stat(); err != nil || info.Size() != 50*recordSize {
		t.Errorf("log of %d bytes (%v), want %d", info.Size(), err, 50*recordSize)
	}
}

func TestMQTT_packets(t *testing.T) {
	out := appendPublish(nil, "stations/7/command", 258, bytes.Repeat([]byte("x"), 200))
	m := &mqttConn{in: bufio.NewReader(bytes.NewReader(out))}
	head, err := m.read()
	if err != nil || head != 0x32 {
		t.Fatalf("head %#x, %v", head, err)
	}
	id, payload, err := published(head, m.body)
	if err != nil || id != 258 || len(payload) != 200 {
		t.Errorf("id %d, %d bytes, %v", id, len(payload), err)
	}
	if got := appendPuback(nil, 258); !bytes.Equal(got, []byte{0x40, 2, 1, 2}) {
		t.Errorf("PUBACK % x", got)
	}
	if _, _, err := published(0x32, []byte{0, 5, 'a'}); err == nil {
		t.Error("a PUBLISH that is too short was taken")
	}
	if got := fieldOf([]byte(`{"command":"unlock", "id" : "0190"}`), "id"); string(got) != "0190" {
		t.Errorf("id %q", got)
	}
}

func TestStatistics(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for p, want := range map[int]time.Duration{1: 1, 50: 50, 99: 99, 100: 100} {
		if got := percentile(hundred, p); got != want {
			t.Errorf("p%d is %d, want %d", p, got, want)
		}
	}
	if got := percentile(hundred[:1], 50); got != 1 {
		t.Errorf("p50 of one value is %d", got)
	}
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("median of three is %v", got)
	}
	if got := median([]float64{4, 1, 9, 2}); got != 3 {
		t.Errorf("median of four is %v", got)
	}
	ten := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512} // powers of two from 0 to 9
	for _, c := range []struct {
		values           []float64
		ratio, low, high float64
	}{
		{[]float64{3}, 3, 3, 3},
		{[]float64{1, 1, 1, 1, 100}, 1, 1, 100},
		{ten, math.Pow(2, 4.5), math.Pow(2, 2), math.Pow(2, 7)}, // the ninth of the 55 means at each end, as tables have it for n = 10
	} {
		ratio, low, high := estimate(c.values)
		for i, got := range []float64{ratio, low, high} {
			if want := []float64{c.ratio, c.low, c.high}[i]; math.Abs(got-want) > 1e-9*want {
				t.Errorf("estimate of %v: %v, %v to %v; want %v, %v to %v", c.values, ratio, low, high, c.ratio, c.low, c.high)
			}
		}
	}
	if got := thousands(1234567.4); got != "1,234,567" {
		t.Errorf("thousands: %s", got)
	}
}

func TestReport_judge(t *testing.T) {
	r := &report{}
	add := func(server string, rates ...float64) {
		for round, rate := range rates {
			r.Samples = append(r.Samples, sample{Kind: "unlock", Server: server, Clients: 64, Round: round, Result: loadResult{Done: 1, PerSecond: rate}})
		}
	}
	add("floor", 1000, 1200, 1100)
	add("gatehouse", 500, 700, 600)
	add("rival", 400, 350, 380)
	r.judge()
	floor, rival := r.Figures[2], r.Figures[3]
	if !floor.Passed || floor.Ratio < 0.54 || floor.Ratio > 0.55 || floor.Low != 0.5 || floor.open() {
		t.Errorf("against the floor: %+v", floor)
	}
	if rival.Passed || rival.Measured != "600/s" || rival.Against != "rival 380/s" {
		t.Errorf("against the rival: %+v", rival)
	}
	r.Samples[3].Result.Failed = 1
	if f := comparisons()[2].judge(r); f.Passed || f.Why != "1 failed" {
		t.Errorf("with one failure: %+v", f)
	}
	if cells := r.Figures[0].cells(); cells[6] != "not measured" {
		t.Errorf("without samples: %q", cells)
	}
}
