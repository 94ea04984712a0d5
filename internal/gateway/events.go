package gateway

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"gatehouse/internal/board/durable"
)

// eventsPath returns the path of the events that an orderly stop leaves to the next
// start. Its name belongs to the database, so that a restore sets it aside with it.
func eventsPath(data string) string { return filepath.Join(data, "gatehouse.db.events") }

// keepEvents writes the events of stations after these have stopped: apps then resume
// after the restart without a gap. It takes as long as the disk takes.
func (g *Gateway) keepEvents() {
	packed, ok := g.stations.PackEvents(g.boot)
	if !ok {
		return
	}
	if err := durable.Write(eventsPath(g.cfg.Data), packed, 0o600); err != nil {
		g.log.Warn("the events of stations are not kept over the restart", "error", err)
	}
}

// adoptEvents continues with the events that the last stop has left. The file is removed
// first, for good: after a crash it would be out of date. So it is one of the last
// steps of a start.
func (g *Gateway) adoptEvents(context.Context) error {
	path := eventsPath(g.cfg.Data)
	packed, err := os.ReadFile(path) //nolint:gosec // the path is the administrator's
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(os.Remove(path), durable.Sync(g.cfg.Data))
	}
	if err == nil && g.db.Rescued() == "" {
		err = g.stations.AdoptEvents(packed, g.db.LastRun())
	}
	if err != nil {
		g.log.Warn("the events before the start are lost; apps read the stations anew", "error", err)
	}
	return nil
}
