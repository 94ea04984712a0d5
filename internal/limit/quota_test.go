package limit_test

import (
	"testing"

	"gatehouse/internal/limit"
)

// One holder has at most its share, all together the total; what leaves makes room.
func TestQuota(t *testing.T) {
	q := limit.NewQuota[string](5, 3)
	for n, step := range []struct {
		holder string
		want   bool
	}{{"a", true}, {"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", true}, {"d", false}} {
		if got := q.Enter(step.holder); got != step.want {
			t.Errorf("step %d: %t", n, got)
		}
	}
	q.Leave("a")
	if !q.Enter("d") || q.Enter("a") || q.Open() != 5 {
		t.Error("a slot that was left is not free for another")
	}
}
