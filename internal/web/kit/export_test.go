package kit

import "gatehouse/internal/fault"

// StatusOf is the table from kinds of errors to statuses.
func StatusOf(kind fault.Kind) int { return statusOf(kind) }
