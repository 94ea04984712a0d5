package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/health"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) cloudStatusCommand() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "status",
		Short: "Show the state of the cloud link, and how many records are pending",
		Long: `Show the state of the cloud link of the running gateway, what to do about what is
wrong, and how many records are pending. Exit status 1 means that the link is down or
not configured.`,
		Example: "  gatehouse cloud status\n  gatehouse cloud status --json",
	}, func(ctx context.Context, gw *client.Client, _ arguments) error {
		status, err := gw.Status(ctx)
		if err != nil {
			return a.outage(ctx, err)
		}
		if status.Cloud == nil {
			return errors.New("this gateway has no cloud: set url in [cloud] of the configuration and run \"systemctl reload gatehouse\"")
		}
		err = a.result(status.Cloud, func(w *lines) { w.table(a.cloudRows(status)) })
		if c := status.Cloud; err == nil && !c.Connected {
			err = errors.New("the cloud link is down: " + printable(cmp.Or(c.Error, "it has not come up yet")+"; "+cmp.Or(c.Advice, "wait a moment")))
		}
		return err
	})
}

// cloudRow is the line of the cloud link in the status of the gateway.
func (a *app) cloudRow(s adminapi.Status) [][]string {
	if s.Cloud == nil {
		return nil
	}
	return [][]string{{"Cloud", a.cloudText(s.Cloud) + ", " + waitingText(s.Cloud)}}
}

func (a *app) cloudText(c *adminapi.CloudStatus) string {
	switch {
	case c.Connected:
		return fmt.Sprintf("connected to %s since %s", printable(c.URL), a.stamp(c.Since))
	case c.Since.IsZero():
		return "connecting to " + printable(c.URL)
	default:
		return fmt.Sprintf("NOT connected to %s since %s", printable(c.URL), a.stamp(c.Since))
	}
}

func waitingText(c *adminapi.CloudStatus) string {
	if c.Waiting == 0 {
		return "every record is delivered"
	}
	return plural(int(c.Waiting), "record") + " waiting" //nolint:gosec // as many as a disk holds
}

func (a *app) cloudRows(s adminapi.Status) [][]string {
	c := s.Cloud
	rows := [][]string{{"Cloud link", a.cloudText(c)}}
	if c.Error != "" {
		rows = append(rows, []string{"Because", printable(c.Error)}, []string{"What to do", printable(c.Advice)})
	}
	if !c.NextTry.IsZero() {
		rows = append(rows, []string{"Next try", a.stamp(c.NextTry)})
	}
	keys := "none: signed commands are refused (gatehouse cloud keygen makes one)"
	if len(c.Keys) > 0 {
		keys = printable(strings.Join(c.Keys, ", "))
	}
	for _, finding := range s.Conditions {
		if strings.HasPrefix(string(finding.Code), "cloud-") && finding.Code != health.CloudDown {
			rows = append(rows, []string{"Finding", printable(finding.Summary)}, []string{"What to do", printable(finding.Advice)})
		}
	}
	return append(rows,
		[]string{"Topics", "gateways/" + string(s.GatewayID) + "/…"},
		[]string{"Delivered", fmt.Sprintf("up to %d of %d, last %s; %s", c.Delivered, s.Journal.Last, a.stamp(c.LastDelivery), waitingText(c))},
		[]string{"Counts when", "the " + c.Acknowledgement + " has acknowledged it"},
		[]string{"Keys", keys},
	)
}
