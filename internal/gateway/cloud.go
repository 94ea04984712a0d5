package gateway

import (
	"context"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/cloud/api"
	"gatehouse/internal/cloud/homeassistant"
	"gatehouse/internal/cloud/link"
	"gatehouse/internal/cloud/mqttclient"
	"gatehouse/internal/config"
	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// buildCloud builds the cloud link, also where there is no cloud yet, and the link to Home
// Assistant where there is one. A file or a credential that is missing does not keep the
// gateway from starting: each attempt to connect looks for it.
func (g *Gateway) buildCloud(ctx context.Context) error {
	g.clouded = clouded(g.cfg)
	settings, err := cloudSettings(g.cfg)
	if err != nil {
		return err
	}
	g.cloud, err = link.New(ctx, link.Config{
		Gateway: g.id, Version: g.version, Boot: g.boot, Store: g.db, Journal: g.journal, Stations: g.stations, Unlocker: g.unlock, Updates: g.updates,
		Clock: g.clock, Logger: g.log, Health: g.conditions, Metrics: g.metrics, Find: machine.CredentialPath,
	}, settings)
	g.linked.Store(g.cloud)
	if c := g.cfg.Homeassistant; c.URL != "" {
		g.house = homeassistant.New(homeassistant.Config{
			Broker: mqttclient.Broker{URL: c.URL, Username: c.Username, PasswordFile: c.PasswordFile, CA: c.CA}, Find: machine.CredentialPath,
			Prefix: c.Prefix, Gateway: g.id, Version: g.version, BatteryLow: g.cfg.Station.BatteryLow, PlainUnlock: c.PlainUnlock, Pages: g.pages, Store: g.db, Journal: g.journal,
			Stations: g.stations, Unlocker: g.unlock, Clock: g.clock, Logger: g.log, Health: g.conditions, Metrics: g.metrics,
		})
	}
	return err
}

// pages returns the first address of the console with TLS that other machines reach, or "".
func (g *Gateway) pages() string {
	if all := g.setupURLs(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// clouded returns what the cloud link goes by.
func clouded(cfg config.Config) config.Config {
	return config.Config{Cloud: cfg.Cloud, Update: config.Update{FromCloud: cfg.Update.FromCloud}}
}

// cloudSettings returns the settings of the cloud link in the configuration. Errors: Invalid.
func cloudSettings(cfg config.Config) (link.Settings, error) {
	c := cfg.Cloud
	keys, err := api.NewKeyring(c.Keys)
	if err != nil {
		return link.Settings{}, fault.Wrap(fault.Invalid, "cloud.keys: "+err.Error(), err)
	}
	return link.Settings{
		Broker: c.Broker, BrokerAcks: c.Ack == config.AckBroker, Keys: keys, PerSecond: c.RecordsPerSecond, Window: c.Window,
		Updates: cfg.Update.FromCloud,
	}, nil
}

// held is the last seq that retention may remove.
func (g *Gateway) held() uint64 {
	if l := g.linked.Load(); l != nil {
		return l.Held()
	}
	return 0
}

// cloudStatus returns the state of the link; nil without a cloud.
func (g *Gateway) cloudStatus() *site.CloudStatus {
	if s := g.cloud.Status(); s.URL != "" {
		return &s
	}
	return nil
}
