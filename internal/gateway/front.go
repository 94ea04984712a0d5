package gateway

import (
	"net/http"
	"sync"
	"sync/atomic"

	"gatehouse/internal/limit"
	"gatehouse/internal/web/httpapi"
	"gatehouse/internal/web/kit"
)

// front is the service of one HTTP listener. A start that waits for the storage begins it
// early; until it is opened it answers health checks only.
type front struct {
	*kit.Service
	listener listener
	handler  atomic.Pointer[http.Handler]
	begun    sync.Once
	ended    chan error // of the service; capacity 1
}

// newFronts returns the services of the bound HTTP listeners.
func (g *Gateway) newFronts() (all []*front) {
	pool := limit.NewPool(limit.Limits{
		Total:      g.cfg.HTTP.MaxConnections + kit.MaxStreams, // streams of accounts evict nobody
		Resting:    g.cfg.HTTP.MaxConnections,
		PerAddress: g.cfg.HTTP.MaxConnectionsPerAddress,
	})
	for _, l := range g.listeners.http {
		f := &front{listener: l, ended: make(chan error, 1)}
		f.open(g.web.Handler(l.tls != nil, httpapi.Waiting(g.conditions)))
		f.Service = g.web.NewService(f, l.net, pool, l.tls)
		all = append(all, f)
	}
	return all
}

// open sets what the listener serves from its next request on.
func (f *front) open(h http.Handler) { f.handler.Store(&h) }

// ServeHTTP implements [http.Handler].
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*f.handler.Load()).ServeHTTP(w, r)
}

// start begins to serve; further calls do nothing.
func (f *front) start() {
	f.begun.Do(func() { go func() { f.ended <- f.Serve() }() })
}
