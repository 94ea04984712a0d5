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
type csvRecords struct {
	w      *csv.Writer
	headed bool
}

func newCSVRecords(out io.Writer) *csvRecords {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	return &csvRecords{w: w}
}

// end implements [recordWriter]: without a record there still is a header.
func (c *csvRecords) end() error { return c.row(nil) }

func (c *csvRecords) record(r site.Record) error {
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

// row writes a row, before the first one the header.
func (c *csvRecords) row(cells []string) error {
	if !c.headed {
		c.headed = true
		_ = c.w.Write(csvColumns()) // Error has its error
	}
	if cells != nil {
		_ = c.w.Write(cells)
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
