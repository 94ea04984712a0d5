package admission

import "time"

const (
	// shift is for how long a loop keeps a processor busy before it rests.
	shift = 100 * time.Millisecond
	// Breath is how long it rests. In it the scheduler of the runtime looks for other
	// work, for requests that have come: handshakes and new connections that follow each
	// other would keep it from that for seconds on a slow processor.
	Breath = 200 * time.Microsecond
)

// Pace reports when a loop has to rest. The zero Pace has to at once. Not safe for
// concurrent use.
type Pace struct{ rested time.Time }

// Due reports whether it is time for a rest of length Breath.
func (p *Pace) Due() bool { return time.Since(p.rested) > shift }

// Rested begins the next shift.
func (p *Pace) Rested() { p.rested = time.Now() }
