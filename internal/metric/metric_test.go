package metric_test

import (
	"strings"
	"testing"
	"time"

	"gatehouse/internal/metric"
)

func TestRegistry_Write(t *testing.T) {
	r := metric.New()
	r.Unlock("local", "acknowledged")
	r.Unlock("local", "acknowledged")
	r.Refused("login-throttled")
	r.Request("GET /v1/stations/{station_token}", 200)
	r.Gauge("gatehouse_stations_online", func() float64 { return 3 })
	r.Leg(metric.Sent).Observe(200 * time.Microsecond)
	r.Leg(metric.Sent).Observe(250 * time.Microsecond)
	r.Leg(metric.Sent).Observe(time.Minute)
	var out strings.Builder
	r.Write(&out)
	for _, line := range []string{
		`gatehouse_unlocks_total{origin="local",outcome="acknowledged"} 2`,
		`gatehouse_refusals_total{reason="login-throttled"} 1`,
		`gatehouse_http_requests_total{route="GET /v1/stations/{station_token}",status="200"} 1`,
		`gatehouse_stations_online 3`,
		`gatehouse_unlock_leg_seconds_bucket{leg="sent",le="0.0001"} 0`,
		`gatehouse_unlock_leg_seconds_bucket{leg="sent",le="0.00025"} 2`,
		`gatehouse_unlock_leg_seconds_bucket{leg="sent",le="10"} 2`,
		`gatehouse_unlock_leg_seconds_bucket{leg="sent",le="+Inf"} 3`,
		`gatehouse_unlock_leg_seconds_sum{leg="sent"} 60.00045`,
		`gatehouse_unlock_leg_seconds_count{leg="sent"} 3`,
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	if !strings.Contains(out.String(), "process_resident_memory_bytes") {
		t.Error("the figures of the process are missing")
	}
}
