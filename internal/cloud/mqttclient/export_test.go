package mqttclient

// UseID sets the id that the last packet is taken to have had.
func (c *Conn) UseID(last uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID = last
}
