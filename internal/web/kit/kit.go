package kit

import (
	"log/slog"
	"net/http"
	"runtime"
	"sync"

	"golang.org/x/time/rate"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/board/boottime"
	"gatehouse/internal/limit"
	"gatehouse/internal/metric"
)

// Config is what a [Kit] needs; Metrics and Logger are required.
type Config struct {
	Metrics *metric.Registry
	Logger  *slog.Logger

	// Handshakes wait while a door is being opened, as requests do; nil: there are none.
	Handshakes *admission.Handshakes

	// Names returns the names by which clients may address the gateway, beside localhost;
	// the first label may be "*". Every request over a plain listener, and each with a cookie,
	// has to name one, or an IP address. Quick, and safe for concurrent use; nil: any name will do.
	Names func() []string
}

// Kit holds what the requests of all listeners share. Safe for concurrent use.
type Kit struct {
	metrics    *metric.Registry
	logger     *slog.Logger
	handshakes *admission.Handshakes
	names      func() []string

	crossOrigin *http.CrossOriginProtection

	turns    *limit.Queue[caller] // of the requests whose answers are computed
	requests *limit.Pool          // the requests in flight
	changes  *limit.Quota[caller] // the requests in flight that change something, except doors
	streams  *limit.Quota[caller] // the open streams
	lines    *rate.Limiter        // what the streams of accounts send of what happens

	adminLines *rate.Limiter // what those of administrators send of it
	errorLog   *rate.Limiter // bounds the log lines that failing requests can cause
	drain      sync.Once
	draining   chan struct{} // closed by Drain
	beat       *beat
}

// New returns a kit; it starts nothing, and [Kit.Run] must run while doors are opened. It registers gauges in cfg.Metrics, so one
// registry serves one kit.
func New(cfg Config) *Kit {
	k := &Kit{
		metrics: cfg.Metrics, logger: cfg.Logger, handshakes: cfg.Handshakes, names: cfg.Names,
		crossOrigin: http.NewCrossOriginProtection(),
		lines:       rate.NewLimiter(linesPerSecond, lineBurst),
		adminLines:  rate.NewLimiter(linesPerSecond, lineBurst),
		turns:       newTurns(runtime.GOMAXPROCS(0)),
		requests:    limit.NewPool(limit.Limits{Total: MaxRequests}),
		changes:     newChanges(),
		streams:     newStreams(),
		errorLog:    rate.NewLimiter(errorLogsPerSecond, errorLogBurst), draining: make(chan struct{}),
		beat: newBeat(boottime.Now),
	}
	cfg.Metrics.Gauge("gatehouse_event_streams", func() float64 { return float64(k.streams.Open(caller{class: accounts})) })
	cfg.Metrics.Gauge("gatehouse_http_requests_in_flight", func() float64 { open, _ := k.requests.Count(); return float64(open) })
	return k
}

// Drain prepares the shutdown of servers: streams end, and every answer from now on
// closes its connection, so that clients reconnect to the successor of this process. No
// request is lost between one side that closes an idle connection and the other that
// still sends on it. May be called again.
func (k *Kit) Drain() { k.drain.Do(func() { close(k.draining) }) }

// isDraining reports whether Drain has been called.
func (k *Kit) isDraining() bool {
	select {
	case <-k.draining:
		return true
	default:
		return false
	}
}

// Draining reports whether [Kit.Drain] has been called.
func (x *Exchange) Draining() bool { return x.kit.isDraining() }
