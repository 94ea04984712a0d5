package fault_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gatehouse/internal/fault"
)

func TestKindOf(t *testing.T) {
	cause := errors.New("disk")
	for name, c := range map[string]struct {
		err      error
		kind     fault.Kind
		sentence string
	}{
		"plain":              {cause, fault.Internal, "Internal error"},
		"new":                {fault.New(fault.NotFound, "No such door"), fault.NotFound, "No such door"},
		"wrapped":            {fmt.Errorf("reading: %w", fault.New(fault.Invalid, "Bad")), fault.Invalid, "Bad"},
		"outermost wins":     {fault.Wrap(fault.Unavailable, "Later", fault.New(fault.NotFound, "x")), fault.Unavailable, "Later"},
		"without a sentence": {&fault.Error{Kind: fault.Timeout, Err: cause}, fault.Timeout, "Internal error"},
	} {
		if fault.KindOf(c.err) != c.kind || !fault.Is(c.err, c.kind) || fault.Sentence(c.err) != c.sentence {
			t.Errorf("%s: %v, %q", name, fault.KindOf(c.err), fault.Sentence(c.err))
		}
	}
	if fault.Wrap(fault.Invalid, "x", nil) != nil || fault.Is(nil, fault.Internal) {
		t.Error("nil did not stay nil")
	}
	if !errors.Is(fault.Wrap(fault.Invalid, "x", cause), cause) {
		t.Error("the cause is lost")
	}
	if fault.RetryAfter(fmt.Errorf("x: %w", fault.Throttle("Wait", time.Second))) != time.Second || fault.RetryAfter(cause) != 0 {
		t.Error("RetryAfter")
	}
}
