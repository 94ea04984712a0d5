package gateway

import (
	"fmt"
	"sync"

	"gatehouse/internal/door/stationlink"
	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// stationHandler is the station link. It raises a condition about the station that the
// broker has refused last because its Maximum Packet Size is too small for a command;
// others like it try again, and raise it anew. Safe for concurrent use.
type stationHandler struct {
	*stationlink.Link
	conditions *health.Registry

	mu    sync.Mutex // mu guards unfit
	unfit site.StationID
}

// TooSmall implements [broker.Handler].
func (h *stationHandler) TooSmall(id site.StationID, takes, need uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unfit = id
	h.conditions.Report(health.Warning, health.StationPacketSize,
		fmt.Sprintf("Station %d (%d bytes) is refused because its Maximum Packet Size has no room for a command", id, takes),
		fmt.Sprintf("Let its firmware state a Maximum Packet Size of %d bytes or more, or none, in its MQTT 5 CONNECT", need))
}

// Connected implements [broker.Handler].
func (h *stationHandler) Connected(c stationlink.Conn) error {
	h.forget(c.Station())
	return h.Link.Connected(c)
}

// forget notes that a station has connected, or is no longer enrolled as it was.
func (h *stationHandler) forget(id site.StationID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unfit == id {
		h.unfit = 0
		h.conditions.Clear(health.StationPacketSize)
	}
}

// checkRoom raises a condition while as many stations are connected as may be.
func (g *Gateway) checkRoom() {
	most, full := g.broker.Full()
	if !full {
		g.conditions.Clear(health.StationsFull)
		return
	}
	advice := "Raise mqtt.max_connections"
	if most < g.cfg.MQTT.MaxConnections {
		advice = "That is what the memory of the gateway carries: use a board with more, or raise MemoryMax and MemoryHigh with \"systemctl edit gatehouse\""
	}
	g.conditions.Report(health.Warning, health.StationsFull, fmt.Sprintf("%d stations are connected, and no other can connect", most), advice)
}
