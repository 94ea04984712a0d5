package mqttclient

// UseID sets the id that the last packet is taken to have had.
func (c *Conn) UseID(last uint16) {
	c.filter.mu.Lock()
	defer c.filter.mu.Unlock()
	c.filter.lastID = last
}
