package gateway

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse/internal/board/admission"
	"gatehouse/internal/web/httpapi"
	"gatehouse/internal/web/kit"
)

// fronts are the services of the HTTP listeners. A start that waits for the storage
// begins them early; until they are opened they answer health checks only.
type fronts struct {
	all   []*front
	ended chan error // of each service; capacity len(all)
	begun sync.Once
}

// front is the service of one HTTP listener.
type front struct {
	*kit.Service
	listener listener
	handler  atomic.Pointer[http.Handler]
}

// newFronts returns the services of the bound HTTP listeners.
func (g *Gateway) newFronts() *fronts {
	crowd := admission.New(admission.Limits{
		Total:      g.cfg.HTTP.MaxConnections + kit.MaxStreams, // streams of accounts evict nobody
		Resting:    g.cfg.HTTP.MaxConnections,
		PerAddress: g.cfg.HTTP.MaxConnectionsPerAddress,
	})
	all := &fronts{ended: make(chan error, len(g.listeners.http))}
	for _, l := range g.listeners.http {
		f := &front{listener: l}
		f.open(g.web.Handler(l.tls != nil, httpapi.Waiting(g.conditions)))
		f.Service = g.web.NewService(f, l.net, crowd, l.tls)
		all.all = append(all.all, f)
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
func (f *fronts) start() {
	f.begun.Do(func() {
		for _, one := range f.all {
			go func() { f.ended <- one.Serve() }()
		}
	})
}

// leave ends all services, each as [kit.Service.Shutdown] does.
func (f *fronts) leave(ctx context.Context, grace time.Duration) {
	var leaving sync.WaitGroup
	for _, one := range f.all {
		leaving.Go(func() { one.Shutdown(ctx, grace) })
	}
	leaving.Wait()
}
