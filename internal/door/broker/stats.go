package broker

import (
	"sync/atomic"

	"gatehouse/internal/metric"
)

// traffic counts packets and bytes.
type traffic struct {
	packetsIn, packetsOut atomic.Uint64
	bytesIn, bytesOut     atomic.Uint64
	slowed                atomic.Uint64 // packets that had to wait for their time
}

// sent counts one written packet.
func (t *traffic) sent(bytes int) {
	t.packetsOut.Add(1)
	t.bytesOut.Add(uint64(bytes))
}

// register makes the figures metrics.
func (s *Server) register(r *metric.Registry) {
	r.Gauge(`gatehouse_mqtt_connections{state="open"}`, func() float64 { open, _ := s.crowd.Count(); return float64(open) })
	r.Gauge(`gatehouse_mqtt_connections{state="connecting"}`, func() float64 { _, connecting := s.crowd.Count(); return float64(connecting) })
	for name, figure := range map[string]*atomic.Uint64{
		`gatehouse_mqtt_packets_total{direction="in"}`:  &s.stats.packetsIn,
		`gatehouse_mqtt_packets_total{direction="out"}`: &s.stats.packetsOut,
		`gatehouse_mqtt_bytes_total{direction="in"}`:    &s.stats.bytesIn,
		`gatehouse_mqtt_bytes_total{direction="out"}`:   &s.stats.bytesOut,
		`gatehouse_mqtt_slowed_total`:                   &s.stats.slowed,
	} {
		r.Gauge(name, func() float64 { return float64(figure.Load()) })
	}
}
