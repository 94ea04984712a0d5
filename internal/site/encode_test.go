package site_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gatehouse/internal/site"
)

// The fast encoder and encoding/json agree to the byte: the journal's hashes rest
// on it, and every reader of JSON.
func TestRecord_AppendJSON_isEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := site.Record{Seq: rapid.Uint64().Draw(t, "seq"), ClockTrusted: rapid.Bool().Draw(t, "trusted")}
		if rapid.Bool().Draw(t, "has time") {
			r.Time = site.At(time.UnixMilli(rapid.Int64Range(-1e12, 4e12).Draw(t, "ms")))
		}
		fields := reflect.ValueOf(&r).Elem()
		draw(t, fields.FieldByName("Boot"))
		draw(t, fields.FieldByName("Kind"))
		facts := reflect.ValueOf(&r.Facts).Elem()
		for i := range facts.NumField() {
			if rapid.Bool().Draw(t, "stated") {
				draw(t, facts.Field(i))
			}
		}
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.AppendJSON(nil); !bytes.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

// draw sets one field of a record by its kind; a field of a new kind fails the test
// until the encoder knows it.
func draw(t *rapid.T, field reflect.Value) {
	switch field.Kind() {
	case reflect.String:
		field.SetString(rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,12}`), rapid.Just("\u2028\x7f\xff<&>\"\\")).Draw(t, "text"))
	case reflect.Int, reflect.Int64:
		field.SetInt(rapid.Int64Range(-5, 1<<40).Draw(t, "number"))
	case reflect.Uint64:
		field.SetUint(rapid.Uint64().Draw(t, "seq"))
	case reflect.Pointer:
		v := rapid.Float64Range(-100, 100).Draw(t, "volts")
		field.Set(reflect.ValueOf(&v))
	default:
		t.Fatalf("the encoder does not know %s", field.Type())
	}
}

func BenchmarkRecord_AppendJSON(b *testing.B) {
	r := site.Record{Seq: 12345, Time: site.At(time.UnixMilli(1e12)), Boot: "6f1c7a3e-0000-4000-8000-000000000000", Kind: site.KindUnlock, Facts: site.Facts{
		Origin: site.Local, Account: "6f1c7a3e-0000-4000-8000-000000000001", Email: "porter@example.test", Session: "6f1c7a3e-0000-4000-8000-000000000002",
		Station: 1042, Lock: "lock-1", Command: "6f1c7a3e-0000-7000-8000-000000000003", Outcome: site.Requested,
	}}
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer = r.AppendJSON(buffer[:0])
	}
}
