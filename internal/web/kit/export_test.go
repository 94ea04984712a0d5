package kit

import "gatehouse/internal/fault"

// StatusOf is the table from kinds of errors to statuses.
func StatusOf(kind fault.Kind) int { return statusOf(kind) }

// OneTurn has one request at a time compute its answer, as on a board with one processor.
func (k *Kit) OneTurn() { k.turns = newTurns(1) }
