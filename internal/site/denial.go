package site

// Denial is why an account may not open a door: the detail of a record.
type Denial string

// The denials (contract, section 1).
const (
	NoGrant      Denial = "no grant"
	OutsideHours Denial = "outside its hours" // of a grant, which holds again, or has not begun
	GrantEnded   Denial = "ended"
	UnknownDoor  Denial = "unknown" // there is no such station or lock
)

// Closed is a station that an account may not use now, but again later.
type Closed struct {
	Station    StationID
	OpensAgain Timestamp
}
