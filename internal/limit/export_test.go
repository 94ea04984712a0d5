package limit

// Len returns the number of keys in the table.
func (b *Buckets[K]) Len() int { return len(b.buckets) }

// Len returns the number of keys that are counted apart.
func (d *Digest[K]) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.since)
}
