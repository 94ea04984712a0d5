package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is everything that a run found out.
type report struct {
	Machine machine  `json:"machine"`
	Figures []figure `json:"figures"`
	Samples []sample `json:"samples"`
	Fleet   *fleet   `json:"fleet,omitempty"`
	Card    *card    `json:"card,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// sample is one server measured once.
type sample struct {
	Kind    string     `json:"kind"` // unlock, read, cloud or console
	Server  string     `json:"server"`
	Clients int        `json:"clients"`
	Round   int        `json:"round"`
	Result  loadResult `json:"result"`
}

// figure is one line of the table.
type figure struct {
	Name     string  `json:"name"`
	Target   string  `json:"target"`
	Measured string  `json:"measured"` // empty if it was not
	Against  string  `json:"against,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"` // told by those of the single rounds
	Low      float64 `json:"low,omitempty"`   // where it lies with 95 % confidence
	High     float64 `json:"high,omitempty"`
	Limit    float64 `json:"limit,omitempty"`
	Passed   bool    `json:"passed"`
	Why      string  `json:"why,omitempty"` // it falls short, if not for the figure
}

// quantity is a number of a sample, and how it is printed.
type quantity struct {
	of   func(loadResult) float64
	text func(float64) string
}

func p50() quantity {
	return quantity{func(r loadResult) float64 { return r.P50.Seconds() * 1e3 }, milliseconds}
}

func p99() quantity {
	return quantity{func(r loadResult) float64 { return r.P99.Seconds() * 1e3 }, milliseconds}
}

func rate() quantity {
	return quantity{func(r loadResult) float64 { return r.PerSecond }, perSecond}
}

func cpu() quantity {
	return quantity{func(r loadResult) float64 { return r.CPU }, func(v float64) string { return fmt.Sprintf("%.1f µs", v) }}
}

func written() quantity {
	return quantity{func(r loadResult) float64 { return r.Written }, func(v float64) string { return thousands(v) + " B" }}
}

// comparison is a target that is a ratio of two servers.
type comparison struct {
	name     string
	ours     string // the server that is judged; "": gatehouse
	kind     string
	clients  int
	quantity quantity
	against  string
	limit    float64
	atLeast  bool // the ratio must be at least, not at most, the limit
}

func comparisons() []comparison {
	all := []comparison{
		{"unlock p50, 1 client", "", "unlock", 1, p50(), "floor", 2, false},
		{"unlock p99, 8 clients", "", "unlock", 8, p99(), "floor", 3, false},
		{"unlocks/s, 64 clients", "", "unlock", 64, rate(), "floor", 0.5, true},
		{"unlocks/s, 64 clients", "", "unlock", 64, rate(), "rival", 2, true},
		{"CPU per unlock, 64 clients", "", "unlock", 64, cpu(), "floor", 3, false},
		{"CPU per unlock, 8 clients", "", "unlock", 8, cpu(), "floor", 3, false},
		{"unlock p50, 1 client", "", "unlock", 1, p50(), "previous", 1, false},
		{"unlocks/s, 8 clients", "", "unlock", 8, rate(), "previous", 1, true},
		{"unlocks/s, 64 clients", "", "unlock", 64, rate(), "previous", 1, true},
		{"CPU per unlock, 64 clients", "", "unlock", 64, cpu(), "previous", 1.05, false},
		{"station reads/s, 8 clients", "", "read", 8, rate(), "bare", 0.5, true},
		{"station reads/s, 64 clients", "", "read", 64, rate(), "bare", 0.5, true},
	}
	for _, cloud := range []string{linkDown, blackHole, draining} {
		for _, clients := range []int{1, 8} {
			name := fmt.Sprintf("unlock beside a cloud link (%s), %d at once", cloud, clients)
			all = append(all,
				comparison{name + ", p50", cloud, "cloud", clients, p50(), noCloud, 1.1, false},
				comparison{name + ", p99", cloud, "cloud", clients, p99(), noCloud, 1.1, false})
		}
	}
	for _, clients := range []int{1, 8} {
		name := fmt.Sprintf("unlock beside %d open consoles, %d at once, p50", consoles, clients)
		all = append(all, comparison{name, openConsoles, "console", clients, p50(), noConsole, 1.05, false})
	}
	return all
}

func (r *report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// judge makes the figures of the samples.
func (r *report) judge() {
	for _, c := range comparisons() {
		r.Figures = append(r.Figures, c.judge(r))
	}
	r.Figures = append(r.Figures, fleetFigures(r.Fleet)...)
	r.Figures = append(r.Figures, cardFigure(r.Card))
	for _, s := range r.Samples {
		if s.Result.Failed > 0 {
			r.note("%s %s, %d clients, round %d: %d failed: %s", s.Server, s.Kind, s.Clients, s.Round, s.Result.Failed, s.Result.Failure)
		}
	}
	for _, f := range r.Figures {
		if f.open() {
			r.note("%s: %.2f to %.2f leaves the verdict open; measure with more rounds on an idle machine", f.Name, f.Low, f.High)
		}
	}
}

func (c comparison) judge(r *report) figure {
	f := figure{Name: c.name, Target: fmt.Sprintf("%s %.3g × %s", sign(c.atLeast), c.limit, c.against)}
	server := cmp.Or(c.ours, "gatehouse")
	ours := r.values(c.kind, server, c.clients, c.quantity)
	theirs := r.values(c.kind, c.against, c.clients, c.quantity)
	if len(theirs) > 0 {
		f.Against = c.against + " " + c.quantity.text(median(theirs))
	}
	if len(ours) == 0 || len(ours) != len(theirs) {
		return f
	}
	f.Measured = c.quantity.text(median(ours))
	ratios := make([]float64, len(ours)) // each of two servers one after the other: what slows a machine for a while slows both
	for round := range ours {
		ratios[round] = ours[round] / theirs[round]
	}
	f.Ratio, f.Low, f.High = estimate(ratios)
	f.Limit = c.limit
	f.Passed = f.Ratio <= c.limit
	if c.atLeast {
		f.Passed = f.Ratio >= c.limit
	}
	if failed := r.failed(c.kind, server, c.clients); failed > 0 {
		f.Passed, f.Why = false, fmt.Sprintf("%d failed", failed)
	}
	return f
}

// open reports whether the limit lies within what the rounds leave possible.
func (f figure) open() bool { return f.Low < f.Limit && f.Limit < f.High }

func sign(atLeast bool) string {
	if atLeast {
		return "≥"
	}
	return "≤"
}

// values are the numbers of one server, one per round and in their order.
func (r *report) values(kind, server string, clients int, q quantity) []float64 {
	var values []float64
	for _, s := range r.Samples {
		if s.Kind == kind && s.Server == server && s.Clients == clients {
			values = append(values, q.of(s.Result))
		}
	}
	return values
}

func (r *report) failed(kind, server string, clients int) int {
	failed := 0
	for _, s := range r.Samples {
		if s.Kind == kind && s.Server == server && s.Clients == clients {
			failed += s.Result.Failed
		}
	}
	return failed
}

// fleetFigures are the targets that are no ratios.
func fleetFigures(f *fleet) []figure {
	figures := []figure{
		{Name: "1,000 stations connecting at once, worst of 6", Target: "≤ 1 s, no failure"},
		{Name: "resident memory after six such storms", Target: "≤ 64 MB"},
		{Name: "exec to READY=1, 1,000 stations, 100,000 records, median of 10", Target: "≤ 150 ms"},
	}
	if f == nil {
		return figures
	}
	worst := slices.Max(f.Storms)
	figures[0].Measured = fmt.Sprintf("%s (median %s)", seconds(worst), seconds(time.Duration(median(numbers(f.Storms)))))
	figures[0].Passed = worst <= time.Second && f.Failed == 0
	if f.Failed > 0 {
		figures[0].Why = fmt.Sprintf("%d failed: %s", f.Failed, f.Failure)
	}
	figures[1].Measured = fmt.Sprintf("%.1f MB", float64(f.Resident)/1e6)
	figures[1].Passed = f.Resident > 0 && f.Resident <= 64e6
	ready := time.Duration(median(numbers(f.Starts)))
	figures[2].Measured = fmt.Sprintf("%s (worst %s)", milliseconds(ready.Seconds()*1e3), milliseconds(slices.Max(f.Starts).Seconds()*1e3))
	figures[2].Passed = ready <= 150*time.Millisecond
	return figures
}

// print writes the tables.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n\n", r.Machine)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FIGURE\tTARGET\tGATEHOUSE\tAGAINST\tRATIO\t95 %\tVERDICT")
	for _, f := range r.Figures {
		fmt.Fprintln(table, strings.Join(f.cells(), "\t"))
	}
	table.Flush()
	fmt.Fprint(w, "\nmedians of the rounds, with the range of the rates:\n")
	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REQUEST\tSERVER\tCLIENTS\tP50\tP99\tPER SECOND\tROUNDS\tCPU EACH\tWRITTEN EACH\tFAILED")
	for _, kind := range []string{"unlock", "read", "cloud", "console"} {
		for _, clients := range []int{1, 8, 64} {
			for _, server := range []string{"floor", "bare", "gatehouse", "previous", "rival", noCloud, linkDown, blackHole, draining, noConsole, openConsoles} {
				r.printRow(table, kind, server, clients)
			}
		}
	}
	table.Flush()
	for _, note := range r.Notes {
		fmt.Fprintln(w, "note:", note)
	}
}

func (f figure) cells() []string {
	if f.Measured == "" {
		return []string{f.Name, f.Target, "–", f.Against, "", "", "not measured"}
	}
	cells := []string{f.Name, f.Target, f.Measured, f.Against, "", "", "pass"}
	if f.Against != "" {
		cells[4], cells[5] = fmt.Sprintf("%.2f", f.Ratio), fmt.Sprintf("%.2f–%.2f", f.Low, f.High)
	}
	if !f.Passed {
		cells[6] = strings.TrimRight("FALLS SHORT "+f.Why, " ")
	}
	return cells
}

func (r *report) printRow(w io.Writer, kind, server string, clients int) {
	rates := r.values(kind, server, clients, rate())
	if len(rates) == 0 {
		return
	}
	text := func(q quantity) string { return q.text(median(r.values(kind, server, clients, q))) }
	fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s–%s\t%s\t%s\t%d\n", kind, server, clients, text(p50()), text(p99()), text(rate()),
		thousands(slices.Min(rates)), thousands(slices.Max(rates)), text(cpu()), text(written()), r.failed(kind, server, clients))
}

// save writes the report as JSON.
func (r *report) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// median of values, which are not empty; of an even number, the middle two's mean.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// estimate returns the ratio that the rounds' ratios, which are not empty, tell of, and
// between which values it lies with 95 % confidence. It is that of Hodges and Lehmann,
// the median of the means of all pairs, with the interval of the signed-rank test: it
// takes no distribution for granted, and single wild rounds move it little. The means
// are geometric, so that twice as much and half as much weigh the same. Fewer than six
// rounds cannot tell as much as 95 %; then the interval is all there is.
func estimate(ratios []float64) (ratio, low, high float64) {
	var means []float64
	for i, a := range ratios {
		for _, b := range ratios[i:] {
			means = append(means, math.Sqrt(a*b))
		}
	}
	slices.Sort(means)
	n, pairs := float64(len(ratios)), float64(len(means))
	cut := max(int(pairs/2-1.96*math.Sqrt(pairs*(2*n+1)/12)), 0)
	return median(means), means[cut], means[len(means)-1-cut]
}

func numbers(durations []time.Duration) []float64 {
	values := make([]float64, len(durations))
	for i, d := range durations {
		values[i] = float64(d)
	}
	return values
}

func milliseconds(v float64) string { return fmt.Sprintf("%.3g ms", v) }

func perSecond(v float64) string { return thousands(v) + "/s" }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// thousands prints a whole number with a comma every three digits.
func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
