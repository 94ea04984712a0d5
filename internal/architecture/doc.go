// Package architecture holds no code: its tests read the tree as it is and fail
// where it breaks the rules by which the packages stand on each other. The table
// in floor_test.go is the one place of the floors, that in library_test.go of the
// libraries. A new arrow needs a change of the table.
package architecture
