package gateway

import (
	"context"
	"reflect"
	"strings"

	"gatehouse/internal/config"
	"gatehouse/internal/health"
)

// Reload reads the configuration again by read and applies it, with the certificate files
// even where nothing else has changed. No connection ends, except that of the cloud link
// where its settings have changed. What takes effect only with a restart stays as it is and
// is named by a condition. When the configuration or a certificate is wrong, nothing
// changes, and a condition names the reason. Call it from one goroutine at a time.
func (g *Gateway) Reload(ctx context.Context, read func() (config.Config, error)) {
	g.note(g.supervisor.Reloading())
	defer func() { g.note(g.supervisor.Ready(g.words())) }()
	next, err := read()
	if err == nil {
		err = g.takeOver(ctx, next)
	}
	if err != nil {
		g.keepConfiguration(err)
		return
	}
	g.conditions.Clear(health.ConfigurationInvalid)
	g.demandRestart(config.NeedRestart(g.cfg, next))
	g.log.Info("configuration read again")
}

// takeOver checks everything, and then applies what can be applied.
func (g *Gateway) takeOver(ctx context.Context, next config.Config) error {
	cert, key, err := certificateFiles(next)
	if err != nil {
		return err
	}
	cloud, err := cloudSettings(next)
	if err != nil {
		return err
	}
	setZone, err := g.zone.prepare(ctx, next.TimeZone)
	if err != nil {
		return err
	}
	if g.keeper != nil { // the last that can fail: then it changes nothing
		if err := g.keeper.Reload(cert, key); err != nil {
			return err
		}
	}
	setZone()
	if g.level != nil {
		_ = g.level.UnmarshalText([]byte(next.Log.Level)) // which package config has checked
	}
	if to := clouded(next); !reflect.DeepEqual(g.clouded, to) { // a connection is not ended without need
		g.cloud.Configure(cloud)
		g.clouded = to
	}
	g.unlock.SetTTL(next.Unlock.TTL)
	g.stations.SetAlarms(next.Alarm)
	g.unlock.SetBounds(unlockBounds(next))
	g.journal.SetRetention(next.Journal.MaxAge, int64(next.Journal.MaxSize), int64(next.Journal.HardLimit()))
	return nil
}

// demandRestart names the keys that need a restart, in a condition.
func (g *Gateway) demandRestart(paths []string) {
	g.conditions.Clear(health.RestartNeeded)
	if len(paths) == 0 {
		return
	}
	g.conditions.Report(health.Notice, health.RestartNeeded,
		"The configuration has changed; these keys need a restart: "+strings.Join(paths, ", "),
		"Run: systemctl restart gatehouse")
}

// keepConfiguration raises a condition that a changed configuration was not applied, until
// the next one is. err is what was wrong with it.
func (g *Gateway) keepConfiguration(err error) {
	g.log.Error("configuration not applied; the gateway keeps the one that it has", "error", err)
	summary, _, _ := strings.Cut(err.Error(), "\n")
	g.conditions.Report(health.Warning, health.ConfigurationInvalid,
		"A changed configuration was not applied: "+summary,
		"See all of it with \"gatehouse serve --check\", fix it, and run: systemctl reload gatehouse")
}
