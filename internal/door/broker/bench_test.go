package broker_test

import (
	"io"
	"runtime"
	"testing"

	"gatehouse/internal/door/broker"
	"gatehouse/internal/site"
	"gatehouse/internal/test/await"
)

var payload = []byte(`{"id":"0190c8a0-0000-7000-8000-000000000000","command":"unlock","lockId":"lock-1","ttl":5}`)

// A command is written to a station that reads.
func BenchmarkConn_Send(b *testing.B) {
	g := open(b, setup{})
	c, conn := g.connectAndSubscribe(1, 4, 1)
	go func() { _, _ = io.Copy(io.Discard, c.conn) }()
	b.ReportAllocs()
	for b.Loop() {
		if err := conn.Send(1, 1, says(payload), await.Deadline()); err != nil {
			b.Fatal(err)
		}
	}
	g.stop()
}

// A command to a station and its PUBACK, with the station in this process.
func BenchmarkConn_roundTrip(b *testing.B) {
	handler, acks := newRecorder(), make(chan struct{}, 1)
	handler.onAck = func() { acks <- struct{}{} }
	g := open(b, setup{handler: handler})
	c, conn := g.connectAndSubscribe(1, 4, 1)
	go func() {
		for {
			if _, _, err := c.read(); err != nil {
				return
			}
			c.try(packet(0x40, u16(1)))
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		if err := conn.Send(1, 1, says(payload), await.Deadline()); err != nil {
			b.Fatal(err)
		}
		<-acks
	}
	g.stop()
}

// memory returns what is in use after a collection: heap and stacks.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// What an idle connection takes, its client in this process included.
func BenchmarkServer_memory(b *testing.B) {
	const stations = 1000
	for range b.N {
		g := open(b, setup{})
		before := memory()
		for id := range site.StationID(stations) {
			g.connectAndSubscribe(id+1, 4, 1)
		}
		b.ReportMetric(float64(memory()-before)/stations, "B/station")
		g.stop()
	}
}

// What a station says in answer to a command: PUBACK and result.
func BenchmarkServer_inbound(b *testing.B) {
	g := open(b, setup{limits: broker.Limits{PacketsPerSecond: 1e9}, handler: newRecorder()})
	c := g.connect(1, 4)
	answer := join(packet(0x40, u16(1)), publication(4, 0, "stations/1/result", 0,
		`{"id":"0190c8a0-0000-7000-8000-000000000000","result":"done","lockId":"lock-1","status":"unlocked"}`))
	b.ReportAllocs()
	for b.Loop() {
		c.send(answer)
	}
	c.ping()
	g.stop()
}
