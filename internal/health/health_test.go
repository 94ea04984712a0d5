package health_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

func TestRegistry(t *testing.T) {
	var r health.Registry
	if len(r.Conditions()) != 0 || len(r.NotReady()) != 0 {
		t.Error("an empty registry has conditions")
	}
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.Raise(health.Condition{Code: health.ClockUntrusted, Severity: health.Notice})
	r.Raise(health.Condition{Code: health.StorageFailing, Severity: health.Warning, Since: site.At(since), Summary: "old"})
	r.Raise(health.Condition{Code: health.Starting, Severity: health.Fatal})
	r.Raise(health.Condition{Code: health.StorageFailing, Severity: health.Warning, Summary: "new"})
	var codes []health.Code
	for _, c := range r.Conditions() {
		codes = append(codes, c.Code)
		if c.Since.IsZero() {
			t.Errorf("%s has no beginning", c.Code)
		}
	}
	if !slices.Equal(codes, []health.Code{health.Starting, health.StorageFailing, health.ClockUntrusted}) {
		t.Errorf("order %v, want the worst first", codes)
	}
	if c := r.Conditions()[1]; c.Summary != "new" || !c.Since.Equal(since) {
		t.Errorf("raised again: %+v", c)
	}
	if got := r.NotReady(); !slices.Equal(got, []health.Code{health.Starting}) {
		t.Errorf("not ready: %v", got)
	}
	if text, err := json.Marshal(r.Conditions()[0].Since); err != nil || len(text) != len(`"2026-01-01T00:00:00.000Z"`) {
		t.Errorf("since %s, %v: want milliseconds", text, err)
	}
	r.Clear(health.Starting)
	r.Clear(health.Starting)
	if len(r.NotReady()) != 0 || len(r.Conditions()) != 2 {
		t.Error("a cleared condition stands")
	}
}
