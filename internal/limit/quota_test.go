package limit_test

import (
	"fmt"
	"testing"

	"gatehouse/internal/limit"
)

// A holder with a room of its own has at most that, its class the room of the class; what leaves
// makes room.
func TestQuota(t *testing.T) {
	q := limit.NewQuota(func(level int, _ string) int { return []int{5, 3}[level] })
	for n, step := range []struct {
		holder string
		want   bool
	}{{"a", true}, {"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", true}, {"d", false}} {
		if got := q.Enter("class", step.holder); got != step.want {
			t.Errorf("step %d: %t", n, got)
		}
	}
	q.Leave("class", "a")
	if !q.Enter("class", "d") || q.Enter("class", "a") || q.Open("class") != 5 || !q.Enter("another", "a") {
		t.Error("a slot that was left is not free for another")
	}
}

// However many places each of fewer holders wants than there are places, another has one: in its
// class, within its network, and within each part of that.
func TestQuota_Enter_newcomer(t *testing.T) {
	const room = 64
	for level := 1; level <= 3; level++ {
		others := []int{0, 63, 31, 20}[level]
		for n := 1; n <= others; n++ {
			q := limit.NewQuota(func(level int, _ string) int { return []int{room, 0, 0, 0}[level] })
			path := func(holder string) []string {
				all := []string{"class", "one", "part", "client"}
				for i := level; i < len(all); i++ {
					all[i] += holder
				}
				return all
			}
			fill := func() (entered int) {
				for holder := range n {
					if q.Enter(path(fmt.Sprint(holder))...) {
						entered++
					}
				}
				return entered
			}
			for fill() > 0 {
				continue
			}
			if !q.Enter(path("newcomer")...) {
				t.Errorf("level %d, %d others have %d places: a newcomer has none", level, n, q.Open("class"))
			}
		}
	}
}

// One holder alone has half of its class.
func TestQuota_Enter_alone(t *testing.T) {
	q := limit.NewQuota(func(level int, _ string) int { return []int{64, 0}[level] })
	n := 0
	for q.Enter("class", "one") {
		n++
	}
	if n != 32 {
		t.Errorf("%d places", n)
	}
}

func BenchmarkQuota(b *testing.B) {
	q := limit.NewQuota(func(level int, _ string) int { return []int{64, 0, 0}[level] })
	b.ReportAllocs()
	for b.Loop() {
		q.Enter("class", "one", "part")
		q.Leave("class", "one", "part")
	}
}
