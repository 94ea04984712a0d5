package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// misfits raises a condition that names the stations whose Maximum Packet Size is too
// small for a command: the broker refuses them. Safe for concurrent use.
type misfits struct {
	conditions *health.Registry

	mu    sync.Mutex // mu guards takes
	takes map[site.StationID]uint32
}

// mostNamed is how many stations the condition names.
const mostNamed = 10

// add notes that a station was refused because it takes packets of so many bytes
// where a command needs up to need.
func (m *misfits) add(id site.StationID, takes, need uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.takes == nil {
		m.takes = make(map[site.StationID]uint32)
	}
	m.takes[id] = takes
	var names []string
	for _, id := range slices.Sorted(maps.Keys(m.takes))[:min(len(m.takes), mostNamed)] {
		names = append(names, fmt.Sprintf("%d (%d bytes)", id, m.takes[id]))
	}
	m.conditions.Report(health.Warning, health.StationPacketSize,
		fmt.Sprintf("Stations are refused because their Maximum Packet Size has no room for a command (%d): %s", len(m.takes), strings.Join(names, ", ")),
		fmt.Sprintf("Let their firmware state a Maximum Packet Size of %d bytes or more, or none, in its MQTT 5 CONNECT", need))
}

// remove notes that a station has connected, or is no longer enrolled as it was.
func (m *misfits) remove(id site.StationID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.takes)
	delete(m.takes, id)
	if before > 0 && len(m.takes) == 0 {
		m.conditions.Clear(health.StationPacketSize)
	}
}
