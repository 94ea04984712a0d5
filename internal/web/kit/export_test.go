package kit

import "time"

// SetPatience sets how long connections may be idle.
func (l *LimitedListener) SetPatience(d time.Duration) { l.patience = d }
