// Package metric counts what the gateway does and writes it as Prometheus text.
// One [Registry] is created by the assembly and passed to each package that counts; there
// is no registry of the process. Names and labels are constants of the code: no label ever
// carries a value that an outsider chooses.
package metric

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Leg is one part of the way of an unlock, measured from the accepted request.
type Leg int

// The legs, in order.
const (
	Accepted     Leg = iota // token, session and grant are checked
	Journalled              // the intent is durable
	Sent                    // the command is in the station's connection
	Acknowledged            // the station answered
	legs
)

// String names the leg as its label does.
func (l Leg) String() string {
	return [legs]string{"accepted", "journalled", "sent", "acknowledged"}[l]
}

// Registry holds the metrics of one gateway. Safe for concurrent use.
type Registry struct {
	set  *metrics.Set
	legs [legs]Histogram

	mu       sync.RWMutex                // mu guards requests
	requests map[answer]*metrics.Counter // so that no name is composed for each
}

// answer is what the answers of one counter share.
type answer struct {
	pattern string
	status  int
}

// New returns an empty registry.
func New() *Registry {
	r := &Registry{set: metrics.NewSet(), requests: make(map[answer]*metrics.Counter)}
	for leg := range legs {
		r.set.RegisterMetricsWriter(func(w io.Writer) { r.legs[leg].write(w, leg.String()) })
	}
	return r
}

// Unlock counts one ended unlock in gatehouse_unlocks_total.
func (r *Registry) Unlock(origin, outcome string) {
	r.Counter(`gatehouse_unlocks_total{origin="` + origin + `",outcome="` + outcome + `"}`).Inc()
}

// Refused counts one refusal in gatehouse_refusals_total; reason is a constant of
// the caller, such as "login-throttled" or "mqtt-topic".
func (r *Registry) Refused(reason string) {
	r.Counter(`gatehouse_refusals_total{reason="` + reason + `"}`).Inc()
}

// Request counts one answered HTTP request by its route pattern and status.
func (r *Registry) Request(pattern string, status int) {
	key := answer{pattern, status}
	r.mu.RLock()
	c := r.requests[key]
	r.mu.RUnlock()
	if c == nil {
		c = r.Counter(`gatehouse_http_requests_total{route="` + pattern + `",status="` + strconv.Itoa(status) + `"}`)
		r.mu.Lock()
		r.requests[key] = c
		r.mu.Unlock()
	}
	c.Inc()
}

// Leg returns the histogram of one leg of the unlock path, in seconds.
func (r *Registry) Leg(leg Leg) *Histogram { return &r.legs[leg] }

// Counter returns the counter of that full name (with labels), made on first use.
func (r *Registry) Counter(name string) *metrics.Counter { return r.set.GetOrCreateCounter(name) }

// Gauge registers a gauge whose value is asked for at each scrape. A name may be
// registered once.
func (r *Registry) Gauge(name string, value func() float64) { r.set.NewGauge(name, value) }

// Write writes everything, with the figures of the process, as Prometheus text.
func (r *Registry) Write(w io.Writer) {
	r.set.WritePrometheus(w)
	metrics.WriteProcessMetrics(w)
}

// bounds are the upper bounds of the buckets, in seconds: from the fastest path
// on a fast machine to past the deadline of a command.
var bounds = [...]float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
}

// Histogram counts the durations of one [Leg] in fixed buckets, as Prometheus' classic
// histogram.
type Histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64
	nanos   atomic.Uint64
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	seconds := d.Seconds()
	i := 0
	for i < len(bounds) && seconds > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.nanos.Add(uint64(max(d, 0)))
}

func (h *Histogram) write(w io.Writer, leg string) {
	const family = "gatehouse_unlock_leg_seconds"
	var total uint64
	for i := range h.buckets {
		total += h.buckets[i].Load()
		bound := "+Inf"
		if i < len(bounds) {
			bound = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		_, _ = fmt.Fprintf(w, "%s_bucket{leg=%q,le=%q} %d\n", family, leg, bound, total)
	}
	seconds := time.Duration(h.nanos.Load()).Seconds() //nolint:gosec // 292 years fit
	_, _ = fmt.Fprintf(w, "%s_sum{leg=%q} %g\n%s_count{leg=%q} %d\n", family, leg, seconds, family, leg, total)
}
