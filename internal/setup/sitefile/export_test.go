package sitefile

// For the tests of the scanner.
var (
	LinesOf = linesOf
	Deepest = deepest
)
