package journal

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"regexp"

	"gatehouse/internal/site"
)

// csvColumns returns the columns of the journal as CSV: the fields of a record as JSON.
// New ones are added at the end.
func csvColumns() []string {
	return []string{
		"seq", "time", "clockTrusted", "boot", "kind", "origin", "account", "email", "session", "by", "station", "lock",
		"commandId", "outcome", "answer", "idempotencyKey", "status", "batteryVoltage", "remote", "detail", "count",
		"jti", "from", "to", "kid", "version",
	}
}

// CSV writes records as CSV with a header (RFC 4180), a row at once. A text that others
// chose is no formula of a spreadsheet. Not safe for concurrent use.
type CSV struct{ w *csv.Writer }

// NewCSV returns a CSV on out, which begins with the header.
func NewCSV(out io.Writer) *CSV {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	_ = w.Write(csvColumns()) // Error has its error
	return &CSV{w}
}

// End writes what is left: without a record there still is a header.
func (c *CSV) End() error {
	c.w.Flush()
	return c.w.Error()
}

// Record writes a record.
func (c *CSV) Record(r site.Record) error {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(r.AppendJSON(nil), &fields) // it is JSON
	cells := csvColumns()
	for i, name := range cells {
		cells[i] = harmless(cellOf(fields[name]))
	}
	_ = c.w.Write(cells) // Error has its error
	return c.End()
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

// formula is what a spreadsheet may take for the beginning of a formula: at the beginning
// of a cell, and after a semicolon, which separates cells where a comma is the decimal point.
var formula = regexp.MustCompile(`(^|;)( *[=+\-@＝＋－＠\t\r\n])`)

// harmless keeps a spreadsheet from taking a text that others chose for a
// formula: it writes an apostrophe before each.
func harmless(cell string) string { return formula.ReplaceAllString(cell, "${1}'$2") }
