package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gatehouse/internal/site"
)

// csvColumns returns the columns of the journal as CSV: the fields of a record as JSON.
// New ones are added at the end.
func csvColumns() []string {
	return []string{
		"seq", "time", "clockTrusted", "boot", "kind", "origin", "account", "email", "session", "by", "station", "lock",
		"commandId", "outcome", "answer", "idempotencyKey", "status", "batteryVoltage", "remote", "detail", "count",
		"jti", "from", "to", "kid",
	}
}

// csvRecords writes records as CSV with a header (RFC 4180).
type csvRecords struct{ w *csv.Writer }

func newCSVRecords(out io.Writer) csvRecords {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	return csvRecords{w}
}

func (csvRecords) end() error { return nil }

func (c csvRecords) begin() error { return c.row(csvColumns()) }

func (c csvRecords) record(r site.Record) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(r.AppendJSON(nil), &fields); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	cells := csvColumns()
	for i, name := range cells {
		cells[i] = harmless(cellOf(fields[name]))
	}
	return c.row(cells)
}

// cellOf returns a field as it reads in a spreadsheet: a text without its quotes, and
// nothing for one that is absent.
func cellOf(field json.RawMessage) string {
	var text string
	if json.Unmarshal(field, &text) == nil {
		return text
	}
	return string(field)
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
