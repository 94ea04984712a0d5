package site

import (
	"errors"
	"fmt"
	"net/mail"
	"strconv"
	"strings"
)

// MaxStationID is the largest station id: it fits a positive 32-bit integer, so
// that station firmware and every client can hold it.
const MaxStationID = 1<<31 - 1

// MaxLocks is the largest number of locks that one station may have.
const MaxLocks = 64

// StationID names a station: 1 to [MaxStationID]. Zero names none.
type StationID int64

// ParseStationID reads a decimal station id without sign or leading zero.
func ParseStationID(text string) (StationID, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > MaxStationID || text[0] == '0' || text[0] == '+' {
		return 0, fmt.Errorf("%q is not a station id: give a number from 1 to %d", Clip(text), MaxStationID)
	}
	return StationID(n), nil
}

// String returns the id in decimal.
func (id StationID) String() string { return strconv.FormatInt(int64(id), 10) }

// Valid reports whether id lies in the range of station ids.
func (id StationID) Valid() bool { return id >= 1 && id <= MaxStationID }

// ClientID is the MQTT client id and user name of the station
// ("station-1042"; contract, section 2).
func (id StationID) ClientID() string { return stationPrefix + id.String() }

const stationPrefix = "station-"

// ParseClientID is the reverse of [StationID.ClientID].
func ParseClientID(text string) (StationID, error) {
	digits, ok := strings.CutPrefix(text, stationPrefix)
	if !ok {
		return 0, fmt.Errorf("%q is not a station's client id (station-<id>)", Clip(text))
	}
	return ParseStationID(digits)
}

// ConnectionID identifies a connection of a station. Within one run of the gateway it
// is greater for a later connection. Zero names none.
type ConnectionID uint64

// LockID is the number n of the lock "lock-n" of a station: 1 to [MaxLocks].
type LockID int

const lockPrefix = "lock-"

// ParseLockID reads "lock-1" and the short form "1", which name the same lock
// (contract, section 1).
func ParseLockID(text string) (LockID, error) {
	digits := strings.TrimPrefix(text, lockPrefix)
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > MaxLocks || digits[0] == '0' || digits[0] == '+' {
		return 0, fmt.Errorf("%q is not a lock id: give lock-1 to lock-%d", Clip(text), MaxLocks)
	}
	return LockID(n), nil
}

// String returns the long form, "lock-1".
func (id LockID) String() string { return lockPrefix + strconv.Itoa(int(id)) }

// MarshalText implements [encoding.TextMarshaler] with the long form.
func (id LockID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] by [ParseLockID].
func (id *LockID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseLockID(string(text))
	return err
}

// AccountID names an account: a version 4 UUID, made at creation, never reused.
type AccountID string

// SessionID names a session in the store, the journal and the administration: a version 8
// UUID, made of the hash of a secret. Knowing it is no right.
type SessionID string

// CommandID names a command: a version 7 UUID, so that ids sort by time.
type CommandID string

// BootID names one start of the process: a version 4 UUID.
type BootID string

// GatewayID names this gateway for life: a version 4 UUID made at first start.
type GatewayID string

// Email is an account's address in its canonical form: trimmed, lower case.
type Email string

// maxEmail is the longest address that mail systems carry (RFC 5321, 4.5.3.1.3).
const maxEmail = 254

// ParseEmail reads a bare address ("porter@example.test") into canonical form.
func ParseEmail(text string) (Email, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	if len(text) > maxEmail {
		return "", errors.New("the e-mail address is too long: 254 characters at most")
	}
	address, err := mail.ParseAddress(text)
	if err != nil || address.Address != text {
		return "", fmt.Errorf("%q is not an e-mail address: write it like porter@example.test", Clip(text))
	}
	return Email(text), nil
}

// Clip shortens a text from outside for a message.
func Clip(text string) string {
	const most = 120
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
