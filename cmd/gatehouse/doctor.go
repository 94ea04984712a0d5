package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/board/machine"
	"gatehouse/internal/board/slot"
	"gatehouse/internal/board/updates"
	"gatehouse/internal/config"
	"gatehouse/internal/health"
	"gatehouse/internal/install/doctor"
	"gatehouse/internal/web/adminapi/client"
)

func (a *app) doctorCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "doctor",
		Short: "Examine the gateway and its machine, and show how to fix what is wrong",
		Long: `Examine the gateway and the machine that it runs on: data, configuration, ports, disk,
what is written to it, database and service; of a running gateway also what it reports
itself. It works while the gateway is down, changes nothing, and takes a minute at most.
Each finding comes with the facts and the command that fixes it, the worst first.
Run it as root: others may not see everything, and the report names what they could
not see. "gatehouse journal verify" checks the whole journal.

Exit status 0: nothing is worse than a notice. 1: there is a warning, or something
fatal, which keeps doors shut or records from being kept. 2: wrong usage.`,
		Example: `  sudo gatehouse doctor
  sudo gatehouse doctor --json > report.json`,
	}, func(ctx context.Context, _ []string) error {
		done := a.working("Examining")
		report := doctor.Examine(ctx, a.examination())
		done()
		if err := ctx.Err(); err != nil {
			return err
		}
		return errors.Join(a.result(report, func(w *lines) { a.printReport(w, report) }), unhealthy(report))
	})
}

// examination returns what the doctor examines.
func (a *app) examination() doctor.Config {
	return doctor.Config{
		Machine: machine.This(), File: a.config, Socket: a.namedSocket(), Environ: a.environ,
		Version: version,
		Connect: func(socket string) doctor.Gateway { return client.New(socket) },
		Files:   config.Files, Database: a.examineDatabase,
		Update: updates.New(updates.Config{Logger: slog.New(slog.DiscardHandler), Exchange: slot.Exchange{}}).Status,
	}
}

// unhealthy returns the error of the command; nil when nothing is worse than a notice.
func unhealthy(r doctor.Report) error {
	if r.Healthy {
		return nil
	}
	return fmt.Errorf("%s: follow the report, and run it again", tally(r))
}

// tally counts what is wrong: "1 fatal finding, 2 warnings".
func tally(r doctor.Report) string {
	var parts []string
	for _, kind := range []struct {
		severity health.Severity
		noun     string
	}{{health.Fatal, "fatal finding"}, {health.Warning, "warning"}, {health.Notice, "notice"}} {
		if n := r.Count(kind.severity); n > 0 {
			parts = append(parts, plural(n, kind.noun))
		}
	}
	if len(parts) == 0 {
		return "nothing is wrong"
	}
	return strings.Join(parts, ", ")
}

func (a *app) printReport(w *lines, r doctor.Report) {
	w.printf("Gatehouse %s, examined at %s: %s", r.Version, a.stamp(r.Time), tally(r))
	w.printf("")
	columns := []int{len(health.Warning), len("configuration")} // the longest severity and check
	for _, f := range r.Findings {
		w.row(columns, string(f.Severity), f.Check, f.Summary)
		if f.Severity == doctor.OK {
			continue
		}
		for _, fact := range f.Evidence {
			w.row(columns, "", "", "  "+fact)
		}
		if f.Fix != "" {
			w.row(columns, "", "", "> "+f.Fix)
		}
	}
}
