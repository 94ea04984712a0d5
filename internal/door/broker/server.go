package broker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2"
	"golang.org/x/sync/errgroup"

	"gatehouse/internal/board/systemlog"
	"gatehouse/internal/limit"
	"gatehouse/internal/metric"
	"gatehouse/internal/site"
)

// Server is the broker. [Server.Serve] runs it; the other methods are safe for
// concurrent use.
type Server struct {
	cfg     Config
	ledger  *systemlog.Limiter
	mochi   *mqtt.Server
	pool    *limit.Pool
	seats   seats
	buffers sync.Pool // of *[]byte, for packets that are being encoded

	accepting atomic.Bool    // all accept loops run
	conns     sync.WaitGroup // of the goroutines that serve connections
}

// New returns a broker that does not serve yet. It starts nothing.
func New(cfg Config) *Server {
	s := &Server{
		cfg:     cfg,
		ledger:  systemlog.NewLimiter(cfg.Logger, time.Second, 20),
		pool:    limit.NewPool(limit.Limits{Total: cfg.Limits.Connections, PerAddress: cfg.Limits.ConnectionsPerAddress}),
		seats:   seats{taken: make(map[site.StationID]*seat)},
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
	s.mochi = mqtt.New(options(cfg.Limits))
	_ = s.mochi.AddHook(&hook{server: s}, nil) // it fails where the Init of a hook does
	s.register(cfg.Metrics)
	return s
}

// options are what mochi is allowed, where it heeds them (see OnPacketEncode for the
// rest). They start from its own defaults, because it takes a zero for "none".
func options(limits Limits) *mqtt.Options {
	c := mqtt.NewDefaultServerCapabilities()
	c.MaximumQos = 1
	c.MaximumPacketSize = limits.PacketSize
	c.MaximumSessionExpiryInterval = 0
	c.RetainAvailable = 0
	c.TopicAliasMaximum = 0
	c.ReceiveMaximum = 32
	c.MaximumInflight = 32
	c.MaximumClientWritesPending = 1 // its queue of outgoing messages is never used
	return &mqtt.Options{
		Capabilities:             c,
		ClientNetReadBufferSize:  512,
		ClientNetWriteBufferSize: 512,
		SysTopicResendInterval:   3600,
		Logger:                   slog.New(slog.DiscardHandler), // whole packets stand in its lines, with passwords and payloads
	}
}

// register adds the gauges of the broker to the metrics.
func (s *Server) register(r *metric.Registry) {
	r.Gauge(`gatehouse_mqtt_connections{state="open"}`, func() float64 { open, _ := s.pool.Count(); return float64(open) })
	r.Gauge(`gatehouse_mqtt_connections{state="connecting"}`, func() float64 { _, connecting := s.pool.Count(); return float64(connecting) })
}

// Serve accepts stations on the listeners until ctx ends; then it closes the
// listeners and every connection, waits for their handlers, and returns nil. It returns
// an error when a listener fails for good.
// A server serves once.
func (s *Server) Serve(ctx context.Context, listeners ...Listener) error {
	defer s.closeAll()
	loops, ctx := errgroup.WithContext(ctx)
	s.accepting.Store(true)
	for _, l := range listeners {
		loops.Go(func() error {
			defer s.accepting.Store(false)
			return s.accept(ctx, l)
		})
	}
	<-ctx.Done()
	for _, l := range listeners {
		_ = l.Net.Close() // wakes its loop
	}
	return loops.Wait()
}

// Full returns how many stations may be connected, and reports whether as many are.
func (s *Server) Full() (most int, full bool) {
	open, connecting := s.pool.Count()
	return s.cfg.Limits.Connections, open-connecting >= s.cfg.Limits.Connections
}

// Accepts reports whether connections are accepted: all accept loops run. It does not
// return while a lock that each connection needs is held.
func (s *Server) Accepts() bool {
	_, _ = s.pool.Count()
	s.seats.mu.Lock()
	defer s.seats.mu.Unlock()
	return s.accepting.Load()
}

// closeAll ends every connection, and waits for its handler. No new ones come any more.
func (s *Server) closeAll() {
	for _, g := range s.pool.Holders() {
		c := g.(*Conn)
		s.conns.Go(func() { c.end(reasonStopping, disconnect(c.Version(), codeStopping)) })
	}
	s.conns.Wait()
}
