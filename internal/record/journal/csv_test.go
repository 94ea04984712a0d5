package journal_test

import (
	"encoding/csv"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gatehouse/internal/record/journal"
	"gatehouse/internal/site"
)

func written(t *testing.T, records ...site.Record) string {
	t.Helper()
	var out strings.Builder
	w := journal.NewCSV(&out)
	for _, r := range records {
		if err := w.Record(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// fullRecord returns a record in which every field is set.
func fullRecord() site.Record {
	voltage := 3.71
	return site.Record{
		Seq: 17, Time: site.At(time.Date(2026, 11, 21, 8, 0, 0, 5e6, time.UTC)), ClockTrusted: true, Boot: "boot", Kind: site.KindUnlock,
		Facts: site.Facts{
			Origin: site.Local, Account: "acc", Email: "porter@example.test", Session: "ses", By: "uid 0 (root)",
			Station: 1042, Lock: "lock-1", Command: "cmd", Outcome: site.Late, Answer: "puback", IdempotencyKey: "key",
			Status: site.Unlocked, BatteryVoltage: &voltage, Remote: "192.0.2.7", Detail: `said "no", twice`, Count: 2,
			JTI: "jti", KeyID: "kid", From: 101, To: 500, Version: "1.3.0",
		},
	}
}

// Every field of a record has a column, named and valued as in JSON.
func TestCSV_hasEveryField(t *testing.T) {
	record := fullRecord()
	value := reflect.ValueOf(record.Facts)
	for i := range value.NumField() {
		if value.Field(i).IsZero() {
			t.Errorf("the test says nothing of %s", value.Type().Field(i).Name)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(written(t, record))).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	data, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	fields := json.NewDecoder(strings.NewReader(string(data)))
	fields.UseNumber()
	var want map[string]any
	if err := fields.Decode(&want); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for i, name := range rows[0] {
		got[name] = rows[1][i]
	}
	for name, value := range want {
		text := strings.Trim(string(mustJSON(t, value)), `"`)
		if s, ok := value.(string); ok {
			text = s
		}
		if got[name] != text {
			t.Errorf("column %s is %q, want %q", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d columns for %d fields", len(got), len(want))
	}
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestCSV_linesEndAsInRFC4180(t *testing.T) {
	text := written(t, fullRecord())
	if strings.Count(text, "\r\n") != 2 || strings.Count(text, "\n") != 2 {
		t.Errorf("%q: want two lines that end in CR LF", text)
	}
}

// Texts that others chose must not become formulas of a spreadsheet.
func TestCSV_formulas(t *testing.T) {
	for _, evil := range []string{`=HYPERLINK("http://evil.test")`, "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "a;=1;b", "a; =1", ";＋1"} {
		record := site.Record{Facts: site.Facts{Detail: evil, IdempotencyKey: evil, By: evil}}
		rows, err := csv.NewReader(strings.NewReader(written(t, record))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for i, cell := range rows[1] {
			for part := range strings.SplitSeq(cell, ";") { // where a comma is the decimal point, it separates cells
				if r, _ := utf8.DecodeRuneInString(strings.TrimLeft(part, " ")); strings.ContainsRune("=+-@＝＋－＠\t\r", r) {
					t.Errorf("column %s begins like a formula: %q", rows[0][i], cell)
				}
			}
		}
	}
}

// Fields that do not apply are empty, not zero.
func TestCSV_absent(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(written(t, site.Record{Seq: 1, Kind: site.KindStarted}))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range rows[0] {
		if name == "station" || name == "count" || name == "batteryVoltage" {
			if rows[1][i] != "" {
				t.Errorf("%s is %q", name, rows[1][i])
			}
		}
	}
}
