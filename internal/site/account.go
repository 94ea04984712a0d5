package site

import "time"

// Account is a person or an app that logs in. As JSON it is what administrators see.
type Account struct {
	ID       AccountID `json:"accountId"`
	Email    Email     `json:"email"`
	Admin    bool      `json:"admin"`
	Password Secret    `json:"-"` // the PHC string of the argon2id hash, never the password
	Created  Timestamp `json:"created"`
}

// Session is one login. Its secrets are never kept. As JSON it is what administrators see.
type Session struct {
	ID           SessionID `json:"sessionId"`
	Account      AccountID `json:"-"`
	Refresh      [32]byte  `json:"-"` // SHA-256 of the refresh token, stored for the version before
	Created      Timestamp `json:"created"`
	Expires      Timestamp `json:"expires"`
	ClockTrusted bool      `json:"-"`        // whether Created and Expires rest on a trusted clock
	Remote       string    `json:"remote"`   // the address that logged in
	Client       string    `json:"client"`   // the browser or app that logged in, as it calls itself; may be empty
	Used         Timestamp `json:"lastUsed"` // when its last request came; zero where that is unknown
}

// Uses are the times at which integration tokens and sessions were used last.
type Uses struct {
	Tokens   map[AccountID]time.Time
	Sessions map[SessionID]time.Time
}

// LoginDevice is a device from which an account was logged in to.
type LoginDevice struct {
	Account AccountID
	Sum     [32]byte  // the SHA-256 of its secret, which is never kept
	Until   time.Time // when the newest of its sessions expires or would have
}

// MaxLoginDevices is how many of them are kept for one account, the newest.
const MaxLoginDevices = 256

// Access is everything that decides who may, as it is stored, in any order.
type Access struct {
	Accounts []Account
	Sessions []Session
	Devices  []LoginDevice
	Tokens   []Token
	Grants   []Grant
	Groups   []Group
	Holidays []Holiday
}
