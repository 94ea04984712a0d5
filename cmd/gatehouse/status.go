package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatehouse/internal/fault"
	"gatehouse/internal/health"
	"gatehouse/internal/install/doctor"
	"gatehouse/internal/web/adminapi"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say how the gateway is, and what to do about it",
		Long: `Say how the running gateway is: whether it can open doors, what is wrong and what
to do about it, and where it listens. Exit status 1 means that it is not ready to
open doors, or does not run.`,
		Args: takes(),
		RunE: a.does(func(ctx context.Context, _ []string) error {
			return a.call(func(gw *client.Client) error {
				status, err := gw.Status(ctx)
				if err != nil {
					return a.outage(ctx, err)
				}
				status.Conditions, status.Listeners = list(status.Conditions), list(status.Listeners)
				if err := a.result(status, func(w *lines) { a.printStatus(w, status) }); err != nil {
					return err
				}
				return notReady(status)
			})
		}),
	}
}

// outage adds to the error of a gateway that does not answer what systemd knows of it.
func (a *app) outage(ctx context.Context, err error) error {
	if !fault.Is(err, fault.Unavailable) {
		return err
	}
	if words := doctor.Outage(ctx, a.examination(false)); words != "" {
		return fault.Wrap(fault.Unavailable, words, err)
	}
	return fault.Wrap(fault.Unavailable, describe(err)+"; gatehouse doctor says what is wrong", err)
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
	rows := [][2]string{
		{"Gateway", readiness(s)},
		{"Version", s.Version},
		{"Name", s.Name},
		{"Id", string(s.GatewayID)},
		{"Running", fmt.Sprintf("since %s (%s)", a.stamp(s.Started), s.Clock.Now.Sub(s.Started.Time).Round(time.Second))},
		{"Clock", clockText(a.stamp(s.Clock.Now), s.Clock.Trusted)},
		{"Time zone", cmp.Or(s.TimeZone, "the system's")},
		{"Data", s.Data},
	}
	for i, l := range s.Listeners {
		name := ""
		if i == 0 {
			name = "Listens on"
		}
		rows = append(rows, [2]string{name, listenerText(l)})
	}
	rows = append(rows,
		[2]string{"Stations", fmt.Sprintf("%d enrolled, %d online", s.Stations.Enrolled, s.Stations.Online)},
		[2]string{"Accounts", fmt.Sprintf("%d, with %s", s.Accounts, plural(s.Sessions, "session"))},
		[2]string{"Journal", journalText(s.Journal)},
	)
	if s.Memory.Used > 0 {
		rows = append(rows, [2]string{"Memory", memoryText(s.Memory)})
	}
	rows = append(rows, a.certificateRows(s)...)
	rows = append(rows, a.cloudRow(s)...)
	w.pairs(rows)
	for _, c := range s.Conditions {
		w.printf("")
		w.printf("%s: %s", c.Severity, printable(c.Summary))
		w.printf("  What to do: %s", printable(c.Advice))
		w.printf("  Since %s (%s)", a.stamp(c.Since), c.Code)
	}
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

func clockText(now string, trusted bool) string {
	if trusted {
		return now
	}
	return now + " (not trusted: gatehouse clock says why)"
}

func listenerText(l adminapi.Listener) string {
	text := fmt.Sprintf("%-6s %s", l.Name, l.Address)
	if l.TLS {
		text += " (TLS)"
	}
	return text
}

func journalText(j adminapi.JournalSize) string {
	if j.Records == 0 {
		return "empty"
	}
	return fmt.Sprintf("%s (%d to %d), %s", plural(int(j.Records), "record"), j.First, j.Last, bytesText(j.Bytes))
}

func memoryText(m adminapi.MemoryStatus) string {
	text := bytesText(int64(m.Used)) //nolint:gosec // less than there is
	if m.Limit > 0 {
		text += " of " + bytesText(int64(m.Limit)) //nolint:gosec // likewise
	}
	return text
}

// certificateRows are what people compare before they trust the gateway.
func (a *app) certificateRows(s adminapi.Status) [][2]string {
	var rows [][2]string
	if c := s.Certificate; c != nil {
		whose := "given"
		if c.Own {
			whose = "the gateway's own"
		}
		rows = append(rows,
			[2]string{"Certificate", fmt.Sprintf("%s, valid until %s, for %s", whose, a.stamp(c.NotAfter), strings.Join(c.Names, ", "))},
			[2]string{"", "SHA-256 " + c.Fingerprint})
		if c.AuthorityFingerprint != "" {
			rows = append(rows, [2]string{"Authority", "SHA-256 " + c.AuthorityFingerprint})
		}
	}
	return rows
}

// bytesText gives a size in the unit that fits it, such as "1.2 MB".
func bytesText(n int64) string {
	size, unit := float64(n), 0
	units := [...]string{"B", "kB", "MB", "GB", "TB"}
	for size >= 1000 && unit < len(units)-1 {
		size /= 1000
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}
