package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi/client"
)

// followed is how many records come before the new ones when nothing else is said.
const followed = 10

// selection holds the flags of journal as written.
type selection struct {
	follow, csv  bool
	since, until string
	station      string
	kinds        []string
	limit        int
	last         int
	after        uint64
}

func (a *app) journalCommand() *cobra.Command {
	var flags selection
	cmd := &cobra.Command{
		Use:   "journal",
		Short: "Read the journal: who opened what, when, and how it ended",
		Long: `Print records of the journal, the oldest first. With --follow, go on with new ones
until interrupted; unless told where to begin, that starts with the latest 10.

--since and --until take ` + timeHelp + `,
or how long ago it was (24h, 7d). Times are shown by the clock of this machine with
its offset, in JSON and CSV in UTC. A "?" after a time means that the gateway's
clock was not yet trusted.`,
		Example: `  gatehouse journal --since 24h --kind unlock
  gatehouse journal --station 1042 --last 100
  gatehouse journal --since 2026-11-01 --until 2026-12-01 --csv > november.csv
  gatehouse journal --follow --json
  gatehouse journal verify`,
		Args: fromOne(exclusive(exclusive(exclusive(takes(), "last", "after"), "follow", "until"), "csv", "json"), "limit", "last"),
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.readJournal(ctx, flags) }),
	}
	f := cmd.Flags()
	f.BoolVarP(&flags.follow, "follow", "f", false, "go on with new records")
	f.StringVar(&flags.since, "since", "", "only records from this `TIME` on")
	f.StringVar(&flags.until, "until", "", "only records before this `TIME`")
	f.StringVar(&flags.station, "station", "", "only records of station `N`")
	f.StringSliceVar(&flags.kinds, "kind", nil, "only records of this `KIND`, such as unlock; may be given several times")
	f.IntVar(&flags.limit, "limit", 0, "stop after `N` records")
	f.IntVar(&flags.last, "last", 0, "begin with the `N`th record from the end")
	f.Uint64Var(&flags.after, "after", 0, "only records with a higher number than `SEQ`")
	f.BoolVar(&flags.csv, "csv", false, "write CSV (RFC 4180)")
	// The error is for flags that do not exist.
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kindNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(a.verifyCommand())
	return cmd
}

func (a *app) readJournal(ctx context.Context, flags selection) error {
	query, err := a.query(flags)
	if err != nil {
		return err
	}
	if flags.follow && flags.last == 0 && flags.after == 0 && flags.since == "" {
		flags.last = followed
	}
	return a.call(func(gw *client.Client) error {
		if flags.last > 0 {
			if query.After, err = beforeLast(ctx, gw, flags.last); err != nil {
				return err
			}
		}
		return a.printJournal(ctx, gw, query, flags.csv)
	})
}

// query reads the flags.
func (a *app) query(flags selection) (q client.JournalQuery, err error) {
	q = client.JournalQuery{After: flags.after, Limit: flags.limit, Follow: flags.follow}
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
	q.Kinds, err = parseKinds(flags.kinds)
	return q, err
}

func parseKinds(names []string) (kinds []site.Kind, err error) {
	for _, name := range names {
		if !slices.Contains(site.Kinds(), site.Kind(name)) {
			return nil, wrongUsagef("--kind: there is no kind %q: one of %s", name, strings.Join(kindNames(), ", "))
		}
		kinds = append(kinds, site.Kind(name))
	}
	return kinds, nil
}

func kindNames() []string {
	var names []string
	for _, kind := range site.Kinds() {
		names = append(names, string(kind))
	}
	return names
}

// beforeLast gives the seq before the nth record from the end; records are
// numbered without gaps.
func beforeLast(ctx context.Context, gw *client.Client, n int) (uint64, error) {
	status, err := gw.Status(ctx)
	if err != nil {
		return 0, err
	}
	return status.Journal.Last - min(uint64(n), status.Journal.Last), nil
}

// recordWriter writes records in one format. What breaks off has no end.
type recordWriter interface {
	begin() error
	record(site.Record) error
	end() error
}

func (a *app) printJournal(ctx context.Context, gw *client.Client, query client.JournalQuery, asCSV bool) (err error) {
	out := bufio.NewWriter(a.stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	w := a.recordWriter(out, asCSV, query.Follow)
	begin := sync.OnceValue(w.begin) // when there is something to write, or nothing to come
	for r, err := range gw.Journal(ctx, query) {
		if err == nil {
			err = begin()
		}
		if err == nil {
			err = w.record(r)
		}
		if err == nil && query.Follow {
			err = out.Flush()
		}
		if err != nil {
			return err
		}
	}
	if !query.Follow && ctx.Err() != nil {
		return ctx.Err()
	}
	if err := begin(); err != nil {
		return err
	}
	return w.end()
}

func (a *app) recordWriter(out io.Writer, asCSV, follow bool) recordWriter {
	switch {
	case asCSV:
		return newCSVRecords(out)
	case a.json && follow:
		return jsonLines{&app{stdout: out}}
	case a.json:
		return &jsonList{out: out}
	default:
		return textRecords{app: a, out: &lines{w: out}}
	}
}

// jsonLines writes one record a line.
type jsonLines struct{ *app }

func (jsonLines) begin() error                 { return nil }
func (j jsonLines) record(r site.Record) error { return j.document(r) }
func (jsonLines) end() error                   { return nil }

// jsonList writes one list, a record a line.
type jsonList struct {
	out io.Writer
	any bool
}

func (j *jsonList) begin() error { return j.write([]byte("[")) }

func (j *jsonList) record(r site.Record) error {
	var text []byte
	if j.any {
		text = append(text, ",\n"...)
	}
	j.any = true
	return j.write(r.AppendJSON(text))
}

func (j *jsonList) end() error { return j.write([]byte("]\n")) }

func (j *jsonList) write(text []byte) error {
	if _, err := j.out.Write(text); err != nil {
		return fmt.Errorf("writing the records: %w", err)
	}
	return nil
}

// textRecords writes records for people.
type textRecords struct {
	app *app
	out *lines
}

func (textRecords) begin() error { return nil }
func (textRecords) end() error   { return nil }

func (t textRecords) record(r site.Record) error {
	doubt := " "
	if !r.ClockTrusted {
		doubt = "?"
	}
	t.out.printf("%7d  %s%s  %-17s  %s", r.Seq, t.app.local(r.Time.Time), doubt, r.Kind, factsText(r.Facts))
	return t.out.err
}

// factsText says in one line what a record says beside its kind.
func factsText(f site.Facts) string {
	var parts []string
	add := func(text string, present bool) {
		if present {
			parts = append(parts, printable(text))
		}
	}
	add(string(f.Email), f.Email != "")
	add("by "+f.Doer(), f.Doer() != "")
	add("account "+string(f.Account), f.Account != "" && f.Email == "")
	add("station "+f.Station.String(), f.Station != 0)
	add(f.Lock, f.Lock != "")
	add(string(f.Outcome), f.Outcome != "")
	add("answer "+f.Answer, f.Answer != "")
	add(string(f.Status), f.Status != "")
	add(volts(f.BatteryVoltage), f.BatteryVoltage != nil)
	add("from "+f.Remote, f.Remote != "")
	add(f.Detail, f.Detail != "")
	add(fmt.Sprintf("%d times", f.Count), f.Count > 1 && f.To == 0)
	add(fmt.Sprintf("records %d to %d", f.From, f.To), f.To != 0)
	add("jti "+f.JTI, f.JTI != "")
	return strings.Join(parts, "  ")
}
