package order_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gatehouse/internal/order"
)

// By sorts as the standard library's stable sort does.
func TestBy(t *testing.T) {
	type element struct{ key, place int }
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "keys")
		var all []element
		for place, key := range keys {
			all = append(all, element{key, place})
		}
		byKey := func(a, b element) int { return cmp.Compare(a.key, b.key) }
		want := slices.Clone(all)
		slices.SortStableFunc(want, byKey)
		if order.By(all, byKey); !slices.Equal(all, want) {
			t.Fatalf("got %v, want %v", all, want)
		}
	})
}
