package gateway

import (
	"context"
	"time"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// clockStepped carries the sessions over a step of the clock, and records it.
func (g *Gateway) clockStepped(step time.Duration) {
	g.access.ClockStepped(step)
	if step < time.Second {
		return
	}
	g.journal.AppendLater(site.Record{Kind: site.KindClockChanged, Facts: site.Facts{Detail: "the clock stepped forward by " + step.Round(time.Second).String()}})
}

// Clock implements [adminapi.Timekeeper].
func (g *Gateway) Clock() adminapi.Clock {
	s := g.clock.Status()
	s.Floor = site.At(g.db.Floor())
	return s
}

// AcceptClock implements [adminapi.Timekeeper].
func (g *Gateway) AcceptClock(ctx context.Context, by site.Actor) error {
	was := g.clock.Now()
	jump, err := g.clock.Accept(ctx)
	if err != nil {
		return err
	}
	facts := site.ByActor(by)
	facts.Detail = "the system's time was accepted; the clock stood at " + site.At(was).String()
	g.journal.Intend(site.Record{Kind: site.KindClockAccepted, Facts: facts})
	g.log.Info("the system's time was accepted", "by", by.Name, "step", jump)
	return nil
}

// ResetClock implements [adminapi.Timekeeper].
func (g *Gateway) ResetClock(ctx context.Context, by site.Actor) error {
	err := g.clock.Reset(ctx, func(ctx context.Context, floor, was time.Time) error {
		facts := site.ByActor(by)
		facts.Detail = "the clock and its floor were set back; the clock stood at " + site.At(was).String()
		return g.db.ResetFloor(ctx, func() error { return g.changes.Check(by) }, floor, site.Record{Time: site.At(floor), Kind: site.KindClockReset, Facts: facts})
	})
	if err == nil {
		g.log.Info("the clock and its floor were set back", "by", by.Name)
	}
	return err
}
