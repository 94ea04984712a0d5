package gateway

import (
	"net/netip"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// Status returns the state of this gateway. It reads no disk, which may hang. Safe for
// concurrent use.
func (g *Gateway) Status() adminapi.Status {
	return adminapi.Status{
		Version: g.version, GatewayID: g.id, Name: g.cfg.HostName(), Found: g.publishedName(), Boot: g.boot, Started: site.At(g.started),
		Ready: len(g.conditions.NotReady()) == 0, Conditions: g.conditions.Conditions(),
		Clock:     g.Clock().ClockStatus,
		Listeners: g.listeners.describe(), Addresses: append([]netip.Addr{}, machine.Addresses()...),
		Stations: adminapi.StationCount{Enrolled: len(g.stations.Stations()), Online: g.stations.Online()},
		Accounts: len(g.access.Accounts()), Sessions: g.access.SessionCount(),
		Journal:     g.journal.Size(),
		Data:        g.cfg.Data,
		Certificate: g.certificateStatus(),
		TimeZone:    g.zone.TimeZone(),
		Cloud:       g.cloudStatus(),
		Update:      g.updates.Status(),
		Memory:      adminapi.MemoryStatus{Used: machine.ResidentMemory(), Limit: machine.TotalMemory()},
	}
}
