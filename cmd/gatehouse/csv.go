package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gatehouse/internal/site"
)

// csvColumns are the columns of the journal as CSV, named as in JSON. New ones are
// added at the end.
func csvColumns() []csvColumn {
	return []csvColumn{
		{"seq", func(r site.Record) string { return strconv.FormatUint(r.Seq, 10) }},
		{"time", func(r site.Record) string { return r.Time.String() }},
		{"clockTrusted", func(r site.Record) string { return strconv.FormatBool(r.ClockTrusted) }},
		{"boot", func(r site.Record) string { return string(r.Boot) }},
		{"kind", func(r site.Record) string { return string(r.Kind) }},
		{"origin", func(r site.Record) string { return string(r.Origin) }},
		{"account", func(r site.Record) string { return string(r.Account) }},
		{"email", func(r site.Record) string { return string(r.Email) }},
		{"session", func(r site.Record) string { return string(r.Session) }},
		{"by", func(r site.Record) string { return r.By }},
		{"station", func(r site.Record) string { return integer(r.Station) }},
		{"lock", func(r site.Record) string { return r.Lock }},
		{"commandId", func(r site.Record) string { return string(r.Command) }},
		{"outcome", func(r site.Record) string { return string(r.Outcome) }},
		{"answer", func(r site.Record) string { return r.Answer }},
		{"idempotencyKey", func(r site.Record) string { return r.IdempotencyKey }},
		{"status", func(r site.Record) string { return string(r.Status) }},
		{"batteryVoltage", func(r site.Record) string { return float(r.BatteryVoltage) }},
		{"remote", func(r site.Record) string { return r.Remote }},
		{"detail", func(r site.Record) string { return r.Detail }},
		{"count", func(r site.Record) string { return integer(r.Count) }},
		{"jti", func(r site.Record) string { return r.JTI }},
		{"from", func(r site.Record) string { return integer(r.From) }},
		{"to", func(r site.Record) string { return integer(r.To) }},
		{"kid", func(r site.Record) string { return r.KeyID }},
	}
}

type csvColumn struct {
	name string
	cell func(site.Record) string
}

// integer returns n, or "" for a zero, which means absent.
func integer[N ~int | ~int64 | ~uint64](n N) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10) //nolint:gosec // it fits
}

func float(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

// csvRecords writes records as CSV with a header (RFC 4180).
type csvRecords struct {
	w       *csv.Writer
	columns []csvColumn
}

func newCSVRecords(out io.Writer) csvRecords {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	return csvRecords{w: w, columns: csvColumns()}
}

func (csvRecords) end() error { return nil }

func (c csvRecords) begin() error {
	names := make([]string, len(c.columns))
	for i, column := range c.columns {
		names[i] = column.name
	}
	return c.row(names)
}

func (c csvRecords) record(r site.Record) error {
	cells := make([]string, len(c.columns))
	for i, column := range c.columns {
		cells[i] = harmless(column.cell(r))
	}
	return c.row(cells)
}

func (c csvRecords) row(cells []string) error {
	if err := c.w.Write(cells); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	c.w.Flush()
	return c.w.Error()
}

// harmless keeps a spreadsheet from taking a text that others chose for a
// formula: such a cell begins with an apostrophe.
func harmless(cell string) string {
	if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@\t\r\n") {
		return "'" + cell
	}
	return cell
}
