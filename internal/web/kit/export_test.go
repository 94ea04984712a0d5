package kit

import (
	"time"

	"gatehouse/internal/fault"
)

// StatusOf is the table from kinds of errors to statuses.
func StatusOf(kind fault.Kind) int { return statusOf(kind) }

// SetPatience sets how long connections may be idle.
func (l *LimitedListener) SetPatience(d time.Duration) { l.patience = d }
