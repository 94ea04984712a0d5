package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

// followed is how many records --follow prints before the new ones by default.
const followed = 10

// selection holds the flags of journal as written.
type selection struct {
	follow, csv, all bool
	since, until     string
	station          string
	kinds            []string
	last             uint64
}

func (a *app) journalCommand() *cobra.Command {
	var flags selection
	cmd := a.remote(&cobra.Command{
		Use:   "journal",
		Short: "Read the journal: who opened what, when, and the outcome",
		Long: `Print records of the journal, the oldest first. With --follow, continue with new
records until interrupted; without --since or --last it starts with the latest 10.

An unlock has one line, with its outcome. With --follow, an acknowledgement waits 5 s for
the result that may follow it. --all prints each of its records: the request, what
the lock reported, and the outcome.

--since and --until take ` + timeHelp + `,
or how long ago it was (24h, 7d). Times are shown in the time zone of the site, in
JSON and CSV in UTC. A "?" after a time means that the gateway's clock was not
trusted then.`,
		Example: `  gatehouse journal --since 24h --kind unlock
  gatehouse journal --station 1042 --last 100
  gatehouse journal --since 2026-11-01 --until 2026-12-01 --csv > november.csv
  gatehouse journal --follow --json
  gatehouse journal verify`,
	}, func(ctx context.Context, gw *client.Client, _ arguments) error { return a.readJournal(ctx, gw, flags) })
	exclusive(cmd, "follow", "until")
	exclusive(cmd, "csv", "json")
	exclusive(cmd, "csv", "all")
	f := cmd.Flags()
	f.BoolVarP(&flags.follow, "follow", "f", false, "continue with new records")
	f.BoolVar(&flags.all, "all", false, "print every record of an unlock, not only its outcome")
	f.StringVar(&flags.since, "since", "", "only records from this `TIME` on")
	f.StringVar(&flags.until, "until", "", "only records before this `TIME`")
	f.StringVar(&flags.station, "station", "", "only records of station `N`")
	f.StringSliceVar(&flags.kinds, "kind", nil, "only records of this `KIND`, such as unlock; may be given several times")
	f.Uint64Var(&flags.last, "last", 0, "only the last `N` of these records")
	f.BoolVar(&flags.csv, "csv", false, "write CSV (RFC 4180)")
	cmd.AddCommand(a.verifyCommand())
	return cmd
}

func (a *app) readJournal(ctx context.Context, gw *client.Client, flags selection) error {
	query, err := a.query(flags)
	if err != nil {
		return err
	}
	if flags.follow && flags.last == 0 && flags.since == "" {
		flags.last = followed
	}
	if flags.last > 0 {
		if query, err = onlyLast(ctx, gw, query, flags.last); err != nil {
			return err
		}
	}
	names := map[site.StationID]string{}
	if !a.json && !flags.csv {
		stations, err := gw.Stations(ctx)
		if err != nil {
			return err
		}
		for _, s := range stations {
			names[s.ID] = s.Name
		}
	}
	return a.printJournal(ctx, gw, query, flags, names)
}

// onlyLast narrows a query to the last so many of its records. What is written meanwhile
// belongs to it only where the query follows the journal.
func onlyLast(ctx context.Context, gw *client.Client, query client.JournalQuery, last uint64) (client.JournalQuery, error) {
	const most = 1000 // records of one answer
	page, end := query, uint64(0)
	page.Follow = false
	for found := 1; last > 0 && found > 0; last -= uint64(found) { //nolint:gosec // at most last
		found, page.Tail = 0, int(min(last, most)) //nolint:gosec // at most 1,000
		for r, err := range gw.Journal(ctx, page) {
			if err != nil {
				return query, err
			}
			if found++; found == 1 {
				page.Before = r.Seq
			}
			end = max(end, r.Seq)
		}
	}
	query.After = max(page.Before, 1) - 1
	if !query.Follow {
		query.Before = end + 1
	}
	return query, ctx.Err()
}

// query reads the flags.
func (a *app) query(flags selection) (q client.JournalQuery, err error) {
	q.Follow = flags.follow
	if q.Since, err = a.past("since", flags.since); err != nil {
		return q, err
	}
	if q.Until, err = a.past("until", flags.until); err != nil {
		return q, err
	}
	if flags.station != "" {
		if q.Station, err = site.ParseStationID(flags.station); err != nil {
			return q, wrongUsage(err)
		}
	}
	for _, name := range flags.kinds {
		if !slices.Contains(site.Kinds(), site.Kind(name)) {
			return q, wrongUsagef("--kind: there is no kind %q: one of %v", name, site.Kinds())
		}
		q.Kinds = append(q.Kinds, site.Kind(name))
	}
	return q, nil
}

// recordWriter writes records in one format. It writes nothing before the first record;
// end follows the last one, unless reading them failed.
type recordWriter interface {
	Record(site.Record) error
	End() error
}

func (a *app) printJournal(ctx context.Context, gw *client.Client, query client.JournalQuery, flags selection, names map[site.StationID]string) (err error) {
	out := bufio.NewWriter(a.stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	w := a.recordWriter(out, flags, names)
	for r, err := range gw.Journal(ctx, query) {
		if err == nil {
			err = w.Record(r)
		}
		if err == nil && query.Follow {
			err = out.Flush()
		}
		if err != nil && query.Follow {
			return errors.Join(err, w.End())
		}
		if err != nil {
			return err
		}
	}
	if !query.Follow && ctx.Err() != nil {
		return ctx.Err()
	}
	return w.End()
}

func (a *app) recordWriter(out io.Writer, flags selection, names map[site.StationID]string) recordWriter {
	switch {
	case flags.csv:
		return journal.NewCSV(a.stdout) // keeps its header until the first record or the end
	case a.json && flags.follow:
		return &jsonRecords{out: out, after: "\n"}
	case a.json:
		return &jsonRecords{out: out, before: "[", between: ",\n", end: "]\n"}
	default:
		t := newTextRecords(a, out, flags.all, names)
		if flags.follow {
			t.follow, t.out = true, &lines{w: a.stdout}
		}
		return t
	}
}

// jsonRecords writes records as JSON: before each the text before, which is between from
// the second one on, and end after the last.
type jsonRecords struct {
	out                         io.Writer
	before, between, after, end string
}

func (j *jsonRecords) Record(r site.Record) error {
	_, err := fmt.Fprintf(j.out, "%s%s%s", j.before, r.AppendJSON(nil), j.after)
	j.before = j.between
	return err
}

func (j *jsonRecords) End() error {
	_, err := io.WriteString(j.out, strings.TrimPrefix(j.before, j.between)+j.end) // without records too
	return err
}

// factsText returns in one line what a record contains beside its kind and time.
func factsText(r site.Record, names map[site.StationID]string) string {
	var parts []string
	add := func(text string, present bool) {
		if present {
			parts = append(parts, printable(text))
		}
	}
	add(string(r.Email), r.Email != "")
	add("by "+r.Doer(), r.Doer() != "")
	add("account "+string(r.Account), r.Account != "" && r.Email == "" && r.Doer() == "")
	station := "station " + r.Station.String()
	if name := names[r.Station]; name != "" {
		station += " (" + name + ")"
	}
	add(station, r.Station != 0)
	add(r.Lock, r.Lock != "")
	add("version "+r.Version, r.Version != "")
	add(string(r.Outcome), r.Outcome != "")
	add("answer "+r.Answer, r.Answer != "")
	add(string(r.Status), r.Status != "")
	add(volts(r.BatteryVoltage), r.BatteryVoltage != nil)
	add("from "+r.Remote, r.Remote != "")
	add("from the cloud", r.Origin == site.Cloud)
	add(r.Detail, r.Detail != "")
	add(countText(r), r.Count > 1 && r.To == 0)
	add(fmt.Sprintf("records %d to %d", r.From, r.To), r.To != 0)
	add("jti "+r.JTI, r.JTI != "")
	return strings.Join(parts, "  ")
}

// countText returns what the count of a record counts.
func countText(r site.Record) string {
	switch r.Kind {
	case site.KindSessionRevoked, site.KindRestored:
		return plural(r.Count, "session")
	case site.KindDoorOpened, site.KindDoorClosed, site.KindNotOpened:
		return plural(r.Count, "change") + " before without a record"
	default:
		return fmt.Sprintf("%d times", r.Count)
	}
}
