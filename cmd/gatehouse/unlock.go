package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) unlockCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unlock N LOCK",
		Short: "Open a lock, as a test by the administrator",
		Long: `Open one lock of station N ("lock-1", or "1" for short) and say how it ended. It is
in the journal like every unlock, with the administrator's name. Exit status 1
means that the lock did not open.`,
		Example:           "  gatehouse unlock 1042 lock-1",
		Args:              takes("N", "LOCK"),
		ValidArgsFunction: a.completeArguments(a.stationIDs),
		RunE:              a.does(a.unlock),
	}
}

func (a *app) unlock(ctx context.Context, args []string) error {
	lock, err := site.ParseLockID(args[1])
	if err != nil {
		return wrongUsage(err)
	}
	return a.callStation(args[0], func(gw *client.Client, id site.StationID) error {
		unlocked, err := gw.Unlock(ctx, id, lock)
		if fault.Is(err, fault.NotFound) {
			return noLock(ctx, gw, id, lock, err)
		}
		if err != nil {
			return err
		}
		name := fmt.Sprintf("station %s, %s", id, lock)
		if !unlocked.Success {
			if a.json {
				err = a.document(unlocked)
			}
			if err == nil {
				err = fmt.Errorf("%s: %s", name, whyShut(unlocked.Outcome))
			}
			return err
		}
		return a.result(unlocked, func(w *lines) {
			w.printf("%s: %s (command %s).", name, howOpened(unlocked.Outcome), unlocked.CommandID)
		})
	})
}

// noLock says, where the station is there, that its lock is not; else it gives err.
func noLock(ctx context.Context, gw *client.Client, id site.StationID, lock site.LockID, err error) error {
	s, failed := gw.Station(ctx, id)
	has := func(l site.Lock) bool { return l.ID == lock }
	if failed != nil || len(s.Locks) == 0 || slices.ContainsFunc(s.Locks, has) {
		return err
	}
	names := make([]string, len(s.Locks))
	for i, l := range s.Locks {
		names[i] = l.ID.String()
	}
	last := len(names) - 1
	text := names[last]
	if last > 0 {
		text = strings.Join(names[:last], ", ") + " and " + text
	}
	return fmt.Errorf("Station %s has no %s: it has %s", id, lock, text) //nolint:staticcheck // a sentence for people, as the gateway's own
}

func howOpened(outcome site.Outcome) string {
	if outcome == site.Done {
		return "open"
	}
	return "the station has acknowledged the command, but not said that the lock opened"
}

// whyShut says what an outcome without success means, and what to do.
func whyShut(outcome site.Outcome) string {
	switch outcome {
	case site.StationGone:
		return "the station is offline, so nothing was sent; check its power and network, then try again"
	case site.Expired:
		return "the station did not answer in time, and the command is void; check its network, then try again"
	case site.Refused:
		return "the station refused; its own log or display says why"
	case site.Failed:
		return "it did not work; look at the lock, it may be jammed"
	default:
		return "the unlock ended as " + string(outcome) + "; \"gatehouse journal\" says more"
	}
}
