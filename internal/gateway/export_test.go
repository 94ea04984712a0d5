package gateway

import (
	"context"
	"slices"
	"time"

	"gatehouse/internal/board/discovery"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/kit"
)

// Routes returns the routes of every listener, and of the admin socket.
func (g *Gateway) Routes() (all []kit.Route) {
	for _, f := range g.fronts {
		all = append(all, slices.Concat(g.tables(f.listener)...)...)
	}
	return append(all, g.admin.Routes(adminapi.Socket)...)
}

// Services is what the gateway answers for on the network.
func (g *Gateway) Services() []discovery.Service { return g.services() }

// StopStage starts a stage and stops it within a budget.
func StopStage(run func(context.Context) error, budget time.Duration) error {
	return start(context.Background(), stage{"test", run, budget}, make(chan error, 1)).stop()
}

// RebindAdmin does what a running gateway without an administration socket does every 5 s.
func (g *Gateway) RebindAdmin(ctx context.Context) { g.rebindAdmin(ctx) }
