package gateway

import (
	"slices"

	"gatehouse/internal/board/discovery"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/kit"
)

// Routes returns the routes of every listener, and of the admin socket.
func (g *Gateway) Routes() (all []kit.Route) {
	for _, f := range g.fronts.all {
		all = append(all, slices.Concat(g.tables(f.listener)...)...)
	}
	return append(all, g.admin.Routes(adminapi.Socket)...)
}

// Services is what the gateway answers for on the network.
func (g *Gateway) Services() []discovery.Service { return g.services() }
