package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/install/doctor"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) statusCommand() *cobra.Command {
	return a.remote(&cobra.Command{
		Use:   "status",
		Short: "Show the health of the gateway, and what to do about it",
		Long: `Show the health of the running gateway: whether it can open doors, what is wrong
and what to do about it, and where it listens. Exit status 1 means that it is not
ready to open doors, or does not run.`,
	}, func(ctx context.Context, gw *client.Client, _ arguments) error {
		status, err := gw.Status(ctx)
		if err != nil {
			return a.outage(ctx, err)
		}
		return errors.Join(a.result(status, func(w *lines) { a.printStatus(w, status) }), notReady(status))
	})
}

// outage adds what systemd knows to the error of a gateway that does not answer.
func (a *app) outage(ctx context.Context, err error) error {
	if !fault.Is(err, fault.Unavailable) {
		return err
	}
	if words := doctor.Outage(ctx, a.examination()); words != "" {
		return fault.Wrap(fault.Unavailable, words, err)
	}
	return fault.Wrap(fault.Unavailable, describe(err)+"; \"gatehouse doctor\" says what is wrong", err)
}

// notReady is nil when doors can be opened; else the error of the command.
func notReady(s adminapi.Status) error {
	if s.Ready {
		return nil
	}
	for _, c := range s.Conditions {
		if c.Severity == health.Fatal {
			return fmt.Errorf("the gateway is not ready: %s; %s", c.Summary, c.Advice)
		}
	}
	return fmt.Errorf("the gateway is not ready")
}

func (a *app) printStatus(w *lines, s adminapi.Status) {
	clock, j := a.stamp(s.Clock.Now), s.Journal
	if !s.Clock.Trusted {
		clock += " (not trusted: gatehouse clock says why)"
	}
	rows := [][]string{
		{"Gateway", readiness(s)},
		{"Version", s.Version},
		{"Name", s.Name},
		{"Id", string(s.GatewayID)},
		{"Running", fmt.Sprintf("since %s (%s)", a.stamp(s.Started), s.Clock.Now.Sub(s.Started.Time).Round(time.Second))},
		{"Clock", clock},
		{"Time zone", cmp.Or(s.TimeZone, "the system's")},
		{"Data", s.Data},
	}
	rows = append(rows, a.updateRows(s.Update)...)
	rows = append(rows, listenerRows(s.Listeners)...)
	rows = append(rows, openRow(s)...)
	rows = append(rows,
		[]string{"Stations", fmt.Sprintf("%d enrolled, %d online", s.Stations.Enrolled, s.Stations.Online)},
		[]string{"Accounts", fmt.Sprintf("%d, with %s", s.Accounts, plural(s.Sessions, "session"))},
		[]string{"Journal", fmt.Sprintf("%s (%d to %d), %s", plural(int(j.Records), "record"), j.First, j.Last, machine.Size(j.Bytes))},
	)
	if s.Memory.Used > 0 {
		rows = append(rows, []string{"Memory", machine.Size(int64(s.Memory.Used)) + " of " + machine.Size(int64(s.Memory.Limit))}) //nolint:gosec // less than there is
	}
	rows = append(rows, a.certificateRows(s)...)
	rows = append(rows, a.cloudRow(s)...)
	w.table(rows)
	if s.Accounts == 0 {
		w.printf("")
		w.printf("Nobody can log in yet: add the first account with \"gatehouse account add EMAIL --admin\", or in a browser or an app, with the setup code that the gateway shows in its log and on the screen of the board.")
	}
	for _, c := range s.Conditions {
		w.printf("")
		w.printf("%s: %s", c.Severity, printable(c.Summary))
		w.printf("  What to do: %s", printable(c.Advice))
		w.printf("  Since %s (%s)", a.stamp(c.Since), c.Code)
	}
}

// updateRows are the sentences about updates of the system. A gateway of an earlier
// version has none.
func (a *app) updateRows(s site.UpdateStatus) (rows [][]string) {
	name := "Update"
	for _, sentence := range s.Sentences(a.zone) {
		if sentence != "" {
			rows, name = append(rows, []string{name, sentence}), ""
		}
	}
	return rows
}

func readiness(s adminapi.Status) string {
	switch {
	case !s.Ready:
		return "NOT READY: it cannot open doors"
	case len(s.Conditions) > 0:
		return fmt.Sprintf("ready to open doors, with %s below", plural(len(s.Conditions), "finding"))
	default:
		return "ready to open doors"
	}
}

// listenerRows lists the addresses on which the gateway listens.
func listenerRows(listeners []adminapi.Listener) (rows [][]string) {
	name := "Listens on"
	for _, l := range listeners {
		address := l.Address
		if l.TLS {
			address += " (TLS)"
		}
		rows, name = append(rows, []string{name, l.Name, address}), ""
	}
	return rows
}

// openRow is the address that browsers and apps open: one that others reach, else one
// on this machine.
func openRow(s adminapi.Status) [][]string {
	urls := adminapi.URLs(s.Listeners, s.Addresses, "")
	for _, l := range s.Listeners {
		if l.Name == "http" || l.Name == "https" {
			urls = append(urls, l.Name+"://"+l.Address)
		}
	}
	if len(urls) == 0 {
		return nil
	}
	return [][]string{{"Open", urls[0]}}
}

// certificateRows are what people compare before they trust the gateway.
func (a *app) certificateRows(s adminapi.Status) [][]string {
	c := s.Certificate
	if c == nil {
		return nil
	}
	whose := "given"
	if c.Own {
		whose = "the gateway's own"
	}
	rows := [][]string{
		{"Certificate", fmt.Sprintf("%s, valid until %s, for %s", whose, a.stamp(c.NotAfter), strings.Join(c.Names, ", "))},
		{"", "SHA-256 " + c.Fingerprint},
	}
	if c.AuthorityFingerprint != "" {
		rows = append(rows, []string{"Authority", "SHA-256 " + c.AuthorityFingerprint})
	}
	return rows
}
