package site

import "time"

// Account is a person or an app that logs in.
type Account struct {
	ID       AccountID
	Email    Email
	Admin    bool
	Password Secret // the PHC string of the argon2id hash, never the password
	Created  time.Time
}

// Session is one login. Refresh is the SHA-256 of the refresh token; the token
// itself is never kept.
type Session struct {
	ID           SessionID
	Account      AccountID
	Refresh      [32]byte
	Created      time.Time
	Expires      time.Time
	ClockTrusted bool   // whether Created and Expires rest on a trusted clock
	Remote       string // the address that logged in, for the list of sessions
}

// LoginAddress is a client address from which an account was logged in to.
type LoginAddress struct {
	Account AccountID
	Remote  string    // as in a Session
	Until   time.Time // when the newest of these sessions expires or would have
}

// MaxLoginAddresses is how many of them are kept for one account, the newest.
const MaxLoginAddresses = 64
