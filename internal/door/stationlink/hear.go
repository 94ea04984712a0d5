package stationlink

// hear takes over what a report states of its connection, and reports whether the report is
// old, and whether the fault of the station's clock is another one than before.
func (w *wire) hear(terms Terms, again bool) (old, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.uptimes.judge.fault
	old = w.uptimes.add(terms.Uptime, again, w.link.clock())
	w.results = w.results || terms.Results && !old
	return old, w.uptimes.judge.fault != before
}

// follow sets the highest uptime of the connection before.
func (w *wire) follow(before *reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uptimes.before = before
}

// last returns the highest uptime of the connection; false where none was stated.
func (w *wire) last() (last reading, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.uptimes.highest, len(w.uptimes.readings) > 0
}

// clockFault returns what is wrong with the clock of a station; "" on a connection that has
// ended.
func (w *wire) clockFault() ClockFault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return ""
	}
	return w.uptimes.judge.fault
}

// apply calls f, unless another connection has taken the place of this one.
func (w *wire) apply(f func()) {
	w.order.Lock()
	defer w.order.Unlock()
	if !w.replaced {
		f()
	}
}

// replace notes that another connection takes the place of this one.
func (w *wire) replace() {
	w.order.Lock()
	defer w.order.Unlock()
	w.replaced = true
}
