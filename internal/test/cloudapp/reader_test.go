package cloudapp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/site"
	"gatehouse/internal/test/cloudapp"
)

// reading is a Reader and what it has returned.
type reading struct {
	*testing.T
	*cloudapp.Reader
	now time.Time
	got []string
}

func newReading(t *testing.T) *reading {
	return &reading{T: t, Reader: cloudapp.NewReader(), now: time.Unix(1000, 0)}
}

// status has the gateway publish its status on its nth connection.
func (r *reading) status(boot site.BootID, connection, next int) {
	since := site.At(time.Unix(int64(connection), 0))
	r.take(r.Reader.Status(api.Status{Status: api.Online, Boot: boot, Since: &since, Journal: &api.StatusJournal{Next: uint64(next)}}), nil)
}

func (r *reading) records(boot site.BootID, seqs ...int) {
	r.Helper()
	for _, seq := range seqs {
		r.take(r.Journal(fmt.Appendf(nil, `{"seq":%d,"boot":%q,"kind":"login"}`, seq, boot)))
	}
}

func (r *reading) gap(from, to int) {
	r.Helper()
	r.take(r.Journal(fmt.Appendf(nil, `{"seq":%d,"kind":"gap","from":%d,"to":%d}`, to, from, to)))
}

func (r *reading) take(items []cloudapp.Item, err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
	for _, i := range items {
		r.got = append(r.got, strings.Trim(fmt.Sprintf("%s%d-%d", i.Record.Boot, i.From, i.To), "-"))
	}
}

// want compares what was returned since the last time.
func (r *reading) want(got ...string) {
	r.Helper()
	if !slices.Equal(r.got, got) {
		r.Errorf("returned %v, want %v", r.got, got)
	}
	r.got = nil
}

// wantAck compares what is to be acknowledged now; "" for nothing.
func (r *reading) wantAck(want string) {
	r.Helper()
	got := ""
	if ack, due := r.Acknowledge(r.now); due {
		got = fmt.Sprint(ack.Seq)
	}
	if got != want {
		r.Errorf("acknowledges %q, want %q", got, want)
	}
}

func TestReader(t *testing.T) {
	r := newReading(t)
	r.wantAck("0") // a new application asks for what is not acknowledged
	r.wantAck("")
	r.records("a", 5, 4) // before the status
	r.want()
	r.status("a", 1, 4)
	r.want("a4-4", "a5-5")
	r.wantAck("5")
	r.wantAck("")

	// One is missing, and asked for.
	r.records("a", 7, 8)
	r.want()
	r.wantAck("")
	r.now = r.now.Add(2 * time.Second)
	r.wantAck("0")
	r.wantAck("")
	r.records("a", 6, 7, 8)
	r.want("a6-6", "a7-7", "a8-8")
	r.wantAck("8")
	r.now = r.now.Add(time.Hour)
	r.wantAck("")

	// What comes again is acknowledged again.
	r.records("a", 7)
	r.want()
	r.wantAck("8")

	// A status of the same connection lags behind.
	r.status("a", 1, 6)
	r.records("a", 9)
	r.want("a9-9")
	r.wantAck("9")
	r.Reconnected()
	r.wantAck("0")
}

// A gateway that was killed sends again from a lower record on.
func TestReader_killedGateway(t *testing.T) {
	r := newReading(t)
	r.status("a", 1, 1)
	r.records("a", 1, 2, 3)
	r.status("b", 2, 2)
	r.records("a", 2, 3)
	r.records("b", 4)
	r.want("a1-1", "a2-2", "a3-3", "b4-4")
	r.wantAck("4")
}

// A gateway that was restored from a backup has other records under the same numbers.
func TestReader_restoredGateway(t *testing.T) {
	r := newReading(t)
	r.status("a", 1, 1)
	r.records("a", 1, 2, 3)
	r.want("a1-1", "a2-2", "a3-3")
	r.wantAck("3")
	r.wantAck("0")
	r.records("b", 3) // before the status
	r.want()
	r.wantAck("")
	r.status("b", 2, 2)
	r.records("a", 2)
	r.want("b3-3")
	r.records("b", 4)
	r.want("b4-4")
	r.wantAck("4")
}

// A status of an earlier connection may overtake a newer one. One of another start counts
// whatever its time is: the clock may have been reset.
func TestReader_lateStatus(t *testing.T) {
	r := newReading(t)
	r.status("a", 2, 5)
	r.status("a", 1, 9)
	r.records("a", 5)
	r.want("a5-5")
	r.status("b", 1, 3)
	r.records("b", 3)
	r.want("b3-3")
}

// What another application has acknowledged does not come here.
func TestReader_anotherApplication(t *testing.T) {
	r := newReading(t)
	r.status("a", 1, 1)
	r.records("a", 1, 4)
	r.status("a", 1, 4)
	r.want("a1-1", "a4-4")
}

func TestReader_gap(t *testing.T) {
	r := newReading(t)
	r.status("a", 1, 101)
	r.gap(101, 500)
	r.records("a", 501)
	r.want("101-500", "a501-501")
	r.gap(400, 502) // begins with what was returned
	r.want("400-502")
	r.gap(504, 600)
	r.records("a", 503, 601)
	r.want("a503-503", "504-600", "a601-601")
}

func TestReader_malformed(t *testing.T) {
	for _, payload := range []string{
		"", "1", "{", `{"seq":1}`, `{"kind":"login"}`, `{"seq":18446744073709551615,"boot":"a","kind":"login"}`, `{"seq":-1,"kind":"login"}`,
		`{"seq":5,"kind":"gap"}`, `{"seq":5,"kind":"gap","from":6,"to":5}`, `{"seq":5,"kind":"gap","from":1,"to":4}`,
	} {
		if items, err := cloudapp.NewReader().Journal([]byte(payload)); err == nil || items != nil {
			t.Errorf("%s: %v, %v", payload, items, err)
		}
	}
}

// A gateway that publishes what it likes takes no memory without bound.
func TestReader_bounded(t *testing.T) {
	r := newReading(t)
	for n := range 5000 {
		r.records("a", 2+n)
	}
	r.status("a", 1, 1)
	r.records("a", 1)
	if len(r.got) != 2001 {
		t.Errorf("%d records were kept", len(r.got)-1)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"seq":1,"boot":"a","kind":"login"}`), []byte(`{"seq":5,"kind":"gap","from":2,"to":5}`))
	f.Fuzz(func(_ *testing.T, first, second []byte) {
		r := cloudapp.NewReader()
		since := site.At(time.Unix(1, 0))
		r.Status(api.Status{Since: &since, Journal: &api.StatusJournal{Next: 1}})
		_, _ = r.Journal(first)
		_, _ = r.Journal(second)
	})
}
