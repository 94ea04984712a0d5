package adminapi_test

import (
	"context"
	"testing"
	"time"

	"gatehouse/internal/fault"
	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

// timekeeper is a clock that notes who did what to it.
type timekeeper struct {
	done []string
	err  error
}

func (k *timekeeper) Clock() adminapi.Clock {
	at := site.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return adminapi.Clock{
		ClockStatus: adminapi.ClockStatus{Now: at, Why: "w", Advice: "a"},
		State:       "step not believed", Accepted: true, System: at, Synchronised: true, Believed: at,
	}
}

func (k *timekeeper) AcceptClock(_ context.Context, by site.Actor) error {
	k.done = append(k.done, "accept by "+by.Name)
	return k.err
}

func (k *timekeeper) ResetClock(_ context.Context, by site.Actor) error {
	k.done = append(k.done, "reset by "+by.Name)
	return k.err
}

func TestHandler_clock(t *testing.T) {
	const at = `"2026-01-02T03:04:05.000Z"`
	const body = `{"now":` + at + `,"trusted":false,"why":"w","advice":"a","state":"step not believed","accepted":true,"system":` + at +
		`,"synchronised":true,"floor":null,"believed":` + at + `}`
	h := open(t)
	h.want(h.do("GET", "/admin/v1/clock", ""), 200, body)
	h.want(h.do("POST", "/admin/v1/clock/accept", ""), 200, body)
	h.want(h.do("POST", "/admin/v1/clock/reset", ""), 200, body)
	if len(h.timekeeper.done) != 2 || h.timekeeper.done[0] == h.timekeeper.done[1] {
		t.Errorf("done: %v", h.timekeeper.done)
	}
	h.timekeeper.err = fault.New(fault.Conflict, "No")
	h.want(h.do("POST", "/admin/v1/clock/accept", ""), 409, `{"message":"No"}`)
	h.want(h.do("POST", "/admin/v1/clock/reset", ""), 409, `{"message":"No"}`)
}
