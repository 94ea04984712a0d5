package admission

// NetworkTurns is how many turns an IPv6 network has where an address has one.
const NetworkTurns = networkTurns

// Shift is for how long handshakes follow each other without a rest.
const Shift = shift

// Remembered returns of how many addresses and networks something is known.
func (h *Handshakes) Remembered() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting.shares)
}

// Free returns how many turns nobody has.
func (h *Handshakes) Free() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.free
}

// TakeTurn waits for the turn of c.
func (c *Conn) TakeTurn() bool { return c.await() }

// RoundTrip is the estimate behind [Acknowledge].
var RoundTrip = roundTrip
