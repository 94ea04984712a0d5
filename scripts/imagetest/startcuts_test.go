package main

import (
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, count := range []int{0, 1, 2, 37, 64, 65} {
		var before []int
		for most := 1; most <= count+1; most++ {
			chosen := choose(count, most)
			if len(chosen) != min(count, most) || !slices.IsSorted(chosen) || len(slices.Compact(slices.Clone(chosen))) != len(chosen) {
				t.Fatalf("%d of %d: %v", most, count, chosen)
			}
			for _, i := range before {
				if !slices.Contains(chosen, i) {
					t.Errorf("%d of %d: %v lacks %d of one less", most, count, chosen, i)
				}
			}
			before = chosen
		}
	}
	if got := choose(8, 4); !slices.Equal(got, []int{0, 2, 4, 6}) {
		t.Errorf("4 of 8: %v", got)
	}
}
