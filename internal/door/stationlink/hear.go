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
