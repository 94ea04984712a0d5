// Package order sorts slices of anything by one routine. Each type that
// [slices.SortFunc] is used with has a copy of its own in the binary, 13 kB large; what
// is sorted here is short, and a board's card small.
package order

import "sort"

// By sorts all by compare, which gives a negative number where a comes before b and a
// positive one where it comes after it; equal elements keep their order.
func By[T any](all []T, compare func(a, b T) int) {
	sort.SliceStable(all, func(i, j int) bool { return compare(all[i], all[j]) < 0 })
}
