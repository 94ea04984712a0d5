package admission

// NetworkTurns is how many turns an IPv6 network has where an address has one.
const NetworkTurns = networkTurns

// Remembered returns of how many addresses and networks something is known.
func (h *Handshakes) Remembered() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting.shares)
}

// TakeTurn waits for the turn of c.
func (c *Conn) TakeTurn() bool { return c.await() }
