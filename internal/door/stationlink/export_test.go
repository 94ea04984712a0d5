package stationlink

import "time"

// SetClock sets the clock that arrivals and deadlines are read by.
func (l *Link) SetClock(clock func() time.Duration) { l.clock = clock }
