// Package metric counts what the gateway does and writes it as Prometheus text.
// One [Registry] is created by the assembly and passed to each package that counts; there is
// no registry of the process. Names and labels are constants of the code: no
// label ever carries a value that an outsider chooses.
package metric

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"gatehouse/internal/site"
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
	set      *metrics.Set
	legs     [legs]*Histogram
	counters sync.Map // of *metrics.Counter by key; keys are constants of the code, so it is bounded
}

// New returns an empty registry.
func New() *Registry {
	r := &Registry{set: metrics.NewSet()}
	for leg := range legs {
		r.legs[leg] = r.Histogram(fmt.Sprintf(`gatehouse_unlock_leg_seconds{leg=%q}`, leg.String()))
	}
	return r
}

// key names a counter without building its text, which costs more than counting.
type key struct {
	family, first, second string
	status                int
}

// counter returns the counter of a key; name builds its full name at first use.
func (r *Registry) counter(k key, name func(key) string) *metrics.Counter {
	if c, ok := r.counters.Load(k); ok {
		return c.(*metrics.Counter)
	}
	c := r.set.GetOrCreateCounter(name(k))
	r.counters.Store(k, c)
	return c
}

// Unlock counts one ended unlock in gatehouse_unlocks_total.
func (r *Registry) Unlock(origin site.Origin, outcome site.Outcome) {
	r.counter(key{family: "gatehouse_unlocks_total", first: string(origin), second: string(outcome)}, func(k key) string {
		return k.family + `{origin="` + k.first + `",outcome="` + k.second + `"}`
	}).Inc()
}

// Refused counts one refusal in gatehouse_refusals_total; reason is a constant of
// the caller, such as "login-throttled" or "mqtt-topic".
func (r *Registry) Refused(reason string) {
	r.counter(key{family: "gatehouse_refusals_total", first: reason}, func(k key) string {
		return k.family + `{reason="` + k.first + `"}`
	}).Inc()
}

// Request counts one answered HTTP request by its route pattern and status.
func (r *Registry) Request(pattern string, status int) {
	r.counter(key{family: "gatehouse_http_requests_total", first: pattern, status: status}, func(k key) string {
		return k.family + `{route=` + strconv.Quote(k.first) + `,status="` + strconv.Itoa(k.status) + `"}`
	}).Inc()
}

// Leg returns the histogram of one leg of the unlock path, in seconds.
func (r *Registry) Leg(leg Leg) *Histogram { return r.legs[leg] }

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

// Histogram counts durations in fixed buckets, as Prometheus' classic histogram.
type Histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64
	nanos   atomic.Uint64
}

// Histogram registers a histogram under name, which may carry labels.
func (r *Registry) Histogram(name string) *Histogram {
	h := &Histogram{}
	r.set.RegisterMetricsWriter(func(w io.Writer) { h.write(w, name) })
	return h
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

func (h *Histogram) write(w io.Writer, name string) {
	family, labels := split(name)
	var total uint64
	for i := range h.buckets {
		total += h.buckets[i].Load()
		bound := math.Inf(1)
		if i < len(bounds) {
			bound = bounds[i]
		}
		_, _ = fmt.Fprintf(w, "%s_bucket{%sle=%q} %d\n", family, labels, leText(bound), total)
	}
	closing := ""
	if labels != "" {
		closing = "{" + labels[:len(labels)-1] + "}"
	}
	_, _ = fmt.Fprintf(w, "%s_sum%s %g\n%s_count%s %d\n",
		family, closing, time.Duration(h.nanos.Load()).Seconds(), family, closing, total) //nolint:gosec // 292 years fit
}

func leText(bound float64) string {
	if math.IsInf(bound, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(bound, 'g', -1, 64)
}

// split takes `name{a="b"}` apart into the family and its labels, each followed
// by a comma.
func split(name string) (family, labels string) {
	for i := range len(name) {
		if name[i] == '{' {
			return name[:i], name[i+1:len(name)-1] + ","
		}
	}
	return name, ""
}
