package kit_test

import (
	"net/http"
	"testing"

	"gatehouse/internal/fault"
	"gatehouse/internal/web/kit"
)

// Every kind of error is in the table, and comes back from its status.
func TestStatusOf_everyKind(t *testing.T) {
	for _, kind := range fault.Kinds() {
		status := kit.StatusOf(kind)
		if status == http.StatusInternalServerError && kind != fault.Internal {
			t.Errorf("%v is not in the table", kind)
		}
		if back := kit.KindOf(status); back != kind && kind != fault.Timeout { // which is answered as Unavailable
			t.Errorf("%d comes back as %v, not %v", status, back, kind)
		}
	}
	for _, status := range []int{405, 413, 415} {
		if kit.KindOf(status) != fault.Invalid {
			t.Errorf("%d is %v", status, kit.KindOf(status))
		}
	}
	if kit.KindOf(502) != fault.Internal {
		t.Error("502 is not internal")
	}
}
