package gateway

import (
	"fmt"
	"sync"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// misfit raises a condition about the station that the broker has refused last because its
// Maximum Packet Size is too small for a command. Others like it try again, and raise it
// anew. Safe for concurrent use.
type misfit struct {
	conditions *health.Registry

	mu   sync.Mutex // mu guards last
	last site.StationID
}

// report notes that a station was refused because it takes packets of so many bytes
// where a command needs up to need.
func (m *misfit) report(id site.StationID, takes, need uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = id
	m.conditions.Report(health.Warning, health.StationPacketSize,
		fmt.Sprintf("Station %d (%d bytes) is refused because its Maximum Packet Size has no room for a command", id, takes),
		fmt.Sprintf("Let its firmware state a Maximum Packet Size of %d bytes or more, or none, in its MQTT 5 CONNECT", need))
}

// clear notes that a station has connected, or is no longer enrolled as it was.
func (m *misfit) clear(id site.StationID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == id {
		m.last = 0
		m.conditions.Clear(health.StationPacketSize)
	}
}
