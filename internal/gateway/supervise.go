package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gatehouse/internal/health"
)

// statusEvery is how often the words for the service manager are looked at, where it
// wants no sign of life.
const statusEvery = 20 * time.Second

// looks is how often within the service manager's patience the gateway shows that it
// lives.
const looks = 6

// supervise reports the gateway's state to the service manager, and feeds the watchdog
// while doors can be opened: while the broker accepts connections and the path of an
// unlock is free. A disk that is full, fails or does not answer keeps no door shut, and
// is no reason to be killed: a restart would have to wait for it too.
func (g *Gateway) supervise(ctx context.Context) error {
	every := cmp.Or(g.supervisor.Patience()/looks, statusEvery)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		g.checkRoom()
		if g.supervisor.Patience() > 0 {
			g.showLife(ctx, every)
		}
		if words := g.words(); words != told {
			told = words
			g.note(g.supervisor.Status(words))
		}
	}
}

// showLife feeds the watchdog if the gateway lives.
func (g *Gateway) showLife(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := g.pathLives(ctx); err != nil {
		if !errors.Is(err, context.Canceled) {
			g.log.Error("no sign of life for the watchdog", "error", err)
		}
		return
	}
	g.note(g.supervisor.Alive())
}

// pathLives acquires each lock that an unlock acquires on its way to the broker, and those
// of a station that connects. It fails if one of them is not released before ctx ends, or if
// the broker does not accept connections.
func (g *Gateway) pathLives(ctx context.Context) error {
	free := make(chan bool, 1)
	go func() {
		g.access.SessionCount()
		g.stations.Stations()
		g.link.Disconnect(0) // no station has that id
		g.db.Kept()
		free <- g.broker.Accepts()
	}()
	select {
	case accepts := <-free:
		if !accepts {
			return errors.New("the broker does not accept connections")
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the path of an unlock is blocked: %w", ctx.Err())
	}
}

// note logs an error of a notification to the service manager. No caller can fix it.
func (g *Gateway) note(err error) {
	if err != nil {
		g.log.Warn("the service manager cannot be notified", "error", err)
	}
}

// words returns the state of the gateway in one line (systemctl status shows it).
func (g *Gateway) words() string {
	conditions := g.conditions.Conditions()
	if len(conditions) > 0 && conditions[0].Severity == health.Fatal {
		return "Cannot open doors: " + conditions[0].Summary
	}
	text := fmt.Sprintf("Ready to open doors: %d of %d stations online", g.stations.Online(), len(g.stations.Stations()))
	if len(conditions) > 0 {
		text += fmt.Sprintf("; %s: %s", conditions[0].Severity, conditions[0].Summary)
	}
	if more := len(conditions) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more: gatehouse status)", more)
	}
	return text
}
