package site

import (
	"fmt"
	"time"
)

// TimeLayout is how every outside text states a time: RFC 3339, UTC, millisecond
// precision, "Z" (contract, section 1).
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Timestamp is a time that leaves the process: JSON shows it in [TimeLayout], and
// null when it is zero ("never").
type Timestamp struct{ time.Time }

// At returns t as a Timestamp in UTC, cut to milliseconds.
func At(t time.Time) Timestamp {
	if t.IsZero() {
		return Timestamp{}
	}
	return Timestamp{t.Round(0).UTC().Truncate(time.Millisecond)}
}

// String returns the time in [TimeLayout], or "never".
func (t Timestamp) String() string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(TimeLayout)
}

// MarshalJSON implements [encoding/json.Marshaler].
func (t Timestamp) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().AppendFormat(make([]byte, 0, len(TimeLayout)+2), `"`+TimeLayout+`"`), nil
}

// UnmarshalJSON implements [encoding/json.Unmarshaler]: null or any RFC 3339 time.
func (t *Timestamp) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*t = Timestamp{}
		return nil
	}
	var parsed time.Time
	if err := parsed.UnmarshalJSON(data); err != nil {
		return fmt.Errorf("reading a time: %w", err)
	}
	*t = At(parsed)
	return nil
}

// Clock is the gateway's clock (contract, section 4, "The clock"). It never reads less
// than the time floor, and within one run it never goes back, unless an administrator
// resets it. Safe for concurrent use.
type Clock interface {
	// Now returns the time with a monotonic reading.
	Now() time.Time
	// Trusted reports whether the system's clock is synchronised and believed, or an
	// administrator has accepted it for this run.
	Trusted() bool
}
