package turn

// Lines is how many keys somebody has or wants the turn of.
func (k *Keyed[K]) Lines() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.lines)
}
