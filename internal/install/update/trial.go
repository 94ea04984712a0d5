package update

import (
	"context"
	"fmt"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
)

// How long a trial may take, from the start of the system.
const (
	readyWithin    = 5 * time.Minute  // until the gateway has been ready
	stationsWithin = 10 * time.Minute // until every station is back; then half of them are enough
	grace          = time.Minute      // for a gateway that is just then not ready
	steadyFor      = 10 * time.Second // how long all must be well
	lookEvery      = 2 * time.Second
)

// judgement is what a trial has seen.
type judgement struct {
	began time.Time // the start of the system
	ready bool      // the gateway has been ready
	well  time.Time // since when all is well; zero: it is not
}

// try judges the version that runs: it is made the default, or the board restarts into the
// old one. It returns early with ctx's end, and then nothing was decided.
func (u *Updater) try(ctx context.Context) error {
	j := judgement{began: time.Now().Add(-u.Uptime())}
	u.Log.Info("a version is on trial", "version", u.state.Trial.Version)
	for {
		waitingFor, why := u.look(ctx, &j)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case why != "":
			return u.giveUp(ctx, why)
		case waitingFor == "" && time.Since(j.well) >= steadyFor:
			return u.commit(ctx)
		}
		u.show(func(s *site.UpdateStatus) { s.WaitingFor = waitingFor })
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
	}
}

// look returns what the trial waits for, "" for nothing, or why it has failed.
func (u *Updater) look(ctx context.Context, j *judgement) (waitingFor, failure string) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	missing, all, unwell := 0, 0, u.unwell(ctx)
	if unwell == "" {
		var err error
		if missing, all, err = u.missing(ctx); err != nil {
			unwell = "it does not list its stations: " + fault.Text(err)
		}
	}
	age := time.Since(j.began) // now: the gateway may have been slow to answer
	if unwell != "" {
		j.well = time.Time{}
		switch {
		case !j.ready && age >= readyWithin:
			return "", fmt.Sprintf("the gateway was not ready %s after the start: %s", minutes(readyWithin), unwell)
		case age >= stationsWithin+grace:
			return "", fmt.Sprintf("the gateway was not ready %s after the start: %s", minutes(stationsWithin+grace), unwell)
		}
		return "the gateway", ""
	}
	j.ready = true
	switch {
	case missing > 0 && age < stationsWithin:
		j.well = time.Time{}
		return fmt.Sprintf("%d of %d stations", missing, all), ""
	case missing*2 > all:
		return "", fmt.Sprintf("only %d of the %d stations that were online before came back within %s", all-missing, all, minutes(stationsWithin))
	case j.well.IsZero():
		j.well = time.Now()
	}
	return "", ""
}

func minutes(d time.Duration) string { return fmt.Sprintf("%d minutes", int(d.Minutes())) }

// unwell says why the gateway cannot open doors, "" where it can.
func (u *Updater) unwell(ctx context.Context) string {
	status, err := u.Gateway.Status(ctx)
	if err == nil && status.Ready {
		err = u.Serves(ctx, status)
	}
	switch {
	case err != nil:
		return fault.Text(err)
	case status.Ready:
		return ""
	}
	for _, c := range status.Conditions {
		return c.Summary // the worst is the first
	}
	return "it does not say why"
}

// missing counts the stations that were online before the trial, are still enrolled and
// are not online.
func (u *Updater) missing(ctx context.Context) (missing, all int, err error) {
	before := u.state.Trial.Online
	if len(before) == 0 {
		return 0, 0, nil
	}
	stations, err := u.Gateway.Stations(ctx)
	if err != nil {
		return 0, 0, err
	}
	now := make(map[site.StationID]site.StationStatus, len(stations))
	for _, s := range stations {
		now[s.ID] = s.Status
	}
	for _, id := range before {
		status, enrolled := now[id]
		if !enrolled {
			continue
		}
		all++
		if status != site.Online {
			missing++
		}
	}
	return missing, all, nil
}

// commit makes the version that runs the default.
func (u *Updater) commit(ctx context.Context) error {
	running := u.Board.Running()
	if err := u.Board.Change(func() error { return u.Board.SetDefault(running) }); err != nil {
		return u.giveUp(ctx, "it could not be made the default: "+fault.Text(err))
	}
	u.standard = running
	u.Log.Info("the version on trial is the default now", "version", u.state.Trial.Version)
	u.committed()
	err := u.save()
	u.show(nil)
	return err
}

// giveUp notes why the trial has failed, and restarts the board into the old version.
func (u *Updater) giveUp(ctx context.Context, why string) error {
	ctx = context.WithoutCancel(ctx)
	u.Log.Error("the version on trial has failed: the board restarts into the old one", "version", u.state.Trial.Version, "reason", why)
	u.blame(why)
	u.show(func(s *site.UpdateStatus) { s.Phase = site.UpdateRestarting })
	return u.Restart(ctx)
}

// blame notes why the version that runs does not pass its trial, if it is on one.
func (u *Updater) blame(why string) {
	if !u.tried() {
		return
	}
	u.state.Trial.Started, u.state.Trial.Reason = true, bounded(why, maxReason)
	if err := u.save(); err != nil {
		u.Log.Warn("the reason was not recorded", "err", err)
	}
}
