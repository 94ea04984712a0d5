package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) unlockCommand() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "unlock N LOCK",
		Short: "Open a lock, as a test by the administrator",
		Long: `Open one lock of station N ("lock-1", or "1" for short) and print the outcome. The
journal records it like every unlock, with the name of the administrator. Exit
status 1 means that the lock did not open.`,
		Example: "  gatehouse unlock 1042 lock-1",
	}, a.unlock)
}

func (a *app) unlock(ctx context.Context, gw *client.Client, in arguments) error {
	unlocked, err := gw.Unlock(ctx, in.station, in.lock)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("station %s, %s", in.station, in.lock)
	if !unlocked.Success {
		if a.json {
			err = a.document(unlocked)
		}
		if err == nil {
			err = fmt.Errorf("%s: %s", name, whyShut(unlocked))
		}
		return err
	}
	return a.result(unlocked, func(w *lines) {
		opened := "open"
		if unlocked.Outcome != site.Done {
			opened = "the station acknowledged the command, but did not report that the lock opened"
		}
		w.printf("%s: %s (command %s).", name, opened, unlocked.CommandID)
	})
}

// whyShut explains an outcome without success, and what to do.
func whyShut(unlocked adminapi.Unlocked) string {
	switch unlocked.Outcome {
	case site.StationGone:
		if unlocked.Message != "" {
			return "the station is " + unlocked.Message + ", so nothing was sent; its firmware must subscribe after each connection"
		}
		return "the station is offline, so nothing was sent; check its power and network, then try again"
	case site.Expired:
		return "the station did not answer in time, and the command is void; check its network, then try again"
	case site.Refused:
		return "the station refused; its own log or display shows why"
	case site.Failed:
		return "the lock did not open; look at it, it may be jammed"
	default:
		return "the outcome is " + string(unlocked.Outcome) + "; see \"gatehouse journal\""
	}
}
