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

// buildCloud builds the cloud link, also where there is no cloud yet. A file or a
// credential that is missing does not keep the gateway from starting.
func (g *Gateway) buildCloud(ctx context.Context) error {
	g.clouded = g.cfg.Cloud
	settings, err := cloudSettings(g.cfg)
	if err != nil {
		settings = link.Settings{
			Broker: mqttclient.Config{URL: g.cfg.Cloud.URL},
			Broken: &mqttclient.DialError{Step: mqttclient.StepConfiguration, Err: err, Advice: "Fix [cloud] in the configuration and restart the gateway"},
		}
	}
	g.cloud, err = link.New(ctx, link.Config{
		Gateway: g.id, Version: g.version, Boot: g.boot, Store: g.db, Journal: g.journal, Stations: g.stations, Unlocker: g.unlock,
		Clock: g.clock, Logger: g.log, Health: g.conditions, Metrics: g.metrics,
	}, settings)
	g.linked.Store(g.cloud)
	g.buildHouse()
	return err
}

// buildHouse builds the link to Home Assistant, where there is one. A credential that is
// missing is found by each attempt to connect.
func (g *Gateway) buildHouse() {
	c := g.cfg.Homeassistant
	if c.URL == "" {
		return
	}
	for _, path := range []*string{&c.PasswordFile, &c.CA} {
		if found, err := machine.CredentialPath(*path); err == nil {
			*path = found
		}
	}
	g.house = homeassistant.New(homeassistant.Config{
		Broker: mqttclient.Config{URL: c.URL, Username: c.Username, PasswordFile: c.PasswordFile, CA: c.CA}, Prefix: c.Prefix,
		Gateway: g.id, Version: g.version, BatteryLow: g.cfg.Station.BatteryLow, Store: g.db, Journal: g.journal, Stations: g.stations,
		Unlocker: g.unlock, Clock: g.clock, Logger: g.log, Health: g.conditions, Metrics: g.metrics,
	})
}

// cloudSettings returns the settings of the cloud link in the configuration; the zero
// Settings where it names no cloud. Errors: Invalid.
func cloudSettings(cfg config.Config) (link.Settings, error) {
	c := cfg.Cloud
	if c.URL == "" {
		return link.Settings{}, nil
	}
	keys, err := api.NewKeyring(c.Keys)
	if err != nil {
		return link.Settings{}, fault.Wrap(fault.Invalid, "cloud.keys: "+err.Error(), err)
	}
	settings := link.Settings{
		Broker: mqttclient.Config{
			URL: c.URL, ClientID: c.ClientID, Username: c.Username, Password: c.Password, KeepAlive: c.Keepalive,
		},
		BrokerAcks: c.Ack == config.AckBroker, Keys: keys, PerSecond: c.RecordsPerSecond, Window: c.Window,
	}
	for _, file := range []struct {
		key, name string
		path      *string
	}{
		{"password_file", c.PasswordFile, &settings.Broker.PasswordFile},
		{"ca", c.CA, &settings.Broker.CA},
		{"certificate", c.Certificate, &settings.Broker.Certificate},
		{"key", c.Key, &settings.Broker.Key},
	} {
		if *file.path, err = machine.CredentialPath(file.name); err != nil {
			return link.Settings{}, fault.Wrap(fault.Invalid, "cloud."+file.key+": "+err.Error(), err)
		}
	}
	return settings, nil
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
