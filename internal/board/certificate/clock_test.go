package certificate_test

import (
	"testing"
	"time"
)

// Whatever the clock shows when the certificate is made, clients with the right time
// accept it, and once the clock is right it is made as it should be.
func TestKeeper_own_wrongClock(t *testing.T) {
	for name, at := range map[string]time.Time{
		"1970":                time.Unix(5, 0),
		"a year ago":          today.Add(-200 * day),
		"this year's build":   time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		"far ahead":           time.Date(2106, 2, 7, 0, 0, 0, 0, time.UTC),
		"right, but not sure": today,
		"a month ahead":       today.Add(30 * day),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *house) {
				h.set(at, false)
				k := h.run()
				ca, early := k.CA(), k.Info()
				c := client{h.trusting(ca).roots, today}
				h.accepts(k, c, "gate", "192.168.1.20")
				c.now = today.Add(day)
				h.accepts(k, c, "gate")
				if name != "1970" && name != "far ahead" && early.NotAfter.Sub(early.NotBefore) >= 825*day {
					h.Errorf("Apple's devices refuse %s, from %s", short(early), early.NotBefore)
				}
				h.start() // another start before the clock is right changes nothing
				pass(0)
				if got := k.Info(); got.Fingerprint != early.Fingerprint {
					h.Errorf("made again before the clock is right: %s", short(got))
				}

				h.set(today, true)
				pass(0)
				got := k.Info()
				if life := got.NotAfter.Sub(got.NotBefore); life != 397*day || got.CAFingerprint != early.CAFingerprint {
					h.Errorf("afterwards it is %s, for %s", short(got), life)
				}
				h.accepts(k, c, "gate")
				h.codes()
			})
		})
	}
}

// An untrusted clock does not replace a good certificate.
func TestKeeper_own_clockLost(t *testing.T) {
	bubble(t, func(h *house) {
		k := h.run()
		first := k.Info()
		for _, at := range []time.Time{time.Unix(5, 0), today.Add(300 * day), today.Add(-300 * day), time.Date(2106, 2, 7, 0, 0, 0, 0, time.UTC)} {
			h.set(at, false)
			pass(0)
			if got := k.Info(); got.Fingerprint != first.Fingerprint {
				h.Fatalf("at %s: %s", at, short(got))
			}
		}
	})
}

// A time server that was wrong, and is right again.
func TestKeeper_own_clockWasAhead(t *testing.T) {
	bubble(t, func(h *house) {
		h.set(today.Add(100*day), true)
		ca := h.start().CA()
		h.set(today, true)
		k := h.run()
		h.accepts(k, h.trusting(ca), "gate")
		h.codes()
	})
}

// A clock that is called right and cannot be leads to one certificate, not to one
// each time, and to no false alarm.
func TestKeeper_own_impossibleClock(t *testing.T) {
	for _, at := range []time.Time{time.Unix(5, 0), time.Date(2106, 2, 7, 0, 0, 0, 0, time.UTC)} {
		bubble(t, func(h *house) {
			h.set(at, true)
			k := h.run()
			first := k.Info()
			for range 5 {
				pass(0)
				if got := k.Info(); got.Fingerprint != first.Fingerprint {
					h.Fatalf("%s, then %s", short(first), short(got))
				}
			}
			h.accepts(k, client{h.trusting(k.CA()).roots, today}, "gate")
			h.codes()
		})
	}
}

// Without a time server for years, the certificate is renewed all the same.
func TestKeeper_own_neverSure(t *testing.T) {
	bubble(t, func(h *house) {
		h.set(today, false)
		k := h.run()
		ca := k.CA()
		for range 100 {
			h.set(h.Now().Add(25*day), false)
			pass(0)
			h.accepts(k, h.trusting(ca), "gate")
			h.codes()
		}
	})
}

// A wrong time has led the clock years ahead of a system that is right again: a
// certificate that is not valid yet by the system's time is replaced by one that is.
func TestKeeper_own_aheadOfTheSystem(t *testing.T) {
	for name, years := range map[string]int{"one year": 1, "14 years": 14} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *house) {
				wrong := today.AddDate(years, 0, 0)
				h.set(wrong, true)
				k := h.start()
				ca, first := k.CA(), k.Info()
				h.set(wrong, false)
				right := today
				h.cfg.System = func() (time.Time, bool) { return right, false }
				if got := h.start().Info(); got.Fingerprint != first.Fingerprint {
					h.Error("an unsynchronised system led to another certificate")
				}
				h.cfg.System = func() (time.Time, bool) { return right, true }
				k = h.run()
				made := k.Info()
				h.accepts(k, client{h.trusting(ca).roots, today}, "gate")
				pass(0)
				if got := k.Info(); got.Fingerprint != made.Fingerprint {
					h.Error("it is made again and again")
				}
			})
		})
	}
}
