package site

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Station is a piece of hardware as it was enrolled.
type Station struct {
	ID       StationID
	Name     string // for people; may be empty
	Locks    int    // number of locks: lock-1 to lock-<Locks>
	Token    Secret // the station token of /v1
	Secret   SecretHash
	Enrolled time.Time
}

// HasLock reports whether the station was enrolled with lock.
func (s Station) HasLock(lock LockID) bool { return lock >= 1 && int(lock) <= s.Locks }

// SecretHash is what is kept of a station secret: a salted SHA-256, made and
// compared by package station. A fast hash is enough, because the secret carries
// 130 random bits. Like a [Secret] it prints as "redacted", because a secret that
// was given instead of generated may be guessable from it.
type SecretHash struct {
	Salt [16]byte
	Sum  [32]byte
}

// String implements [fmt.Stringer].
func (SecretHash) String() string { return redacted }

// GoString implements [fmt.GoStringer].
func (SecretHash) GoString() string { return redacted }

// Format implements [fmt.Formatter], for every verb.
func (SecretHash) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements [slog.LogValuer].
func (SecretHash) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements [encoding.TextMarshaler]; encoding/json uses it too.
func (SecretHash) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// StationStatus says whether a station has a live connection right now.
type StationStatus string

// The statuses of a station.
const (
	Online  StationStatus = "online"
	Offline StationStatus = "offline"
)

// LockStatus is what a station last said of a lock.
type LockStatus string

// The statuses of a lock. A lock is Unknown until its station has reported it.
const (
	Locked   LockStatus = "locked"
	Unlocked LockStatus = "unlocked"
	Jammed   LockStatus = "jammed"
	Unknown  LockStatus = "unknown"
)

// ParseLockStatus reads one of the four statuses, exactly as written.
func ParseLockStatus(text string) (LockStatus, error) {
	switch s := LockStatus(text); s {
	case Locked, Unlocked, Jammed, Unknown:
		return s, nil
	}
	return "", fmt.Errorf("%q is not a lock status: locked, unlocked, jammed or unknown", clip(text))
}

// Lock is the Lock object of /v1 (specification, "Lock").
type Lock struct {
	ID          LockID     `json:"lockId"`
	Status      LockStatus `json:"status"`
	LastUpdated Timestamp  `json:"lastUpdated"`
}

// StationState is the Station object of /v1 (specification, "Station"): what is
// known of a station at one moment. It carries no token.
type StationState struct {
	ID             StationID     `json:"stationId"`
	BatteryVoltage *float64      `json:"batteryVoltage"` // volts; nil until reported
	LastConnection Timestamp     `json:"lastConnection"`
	Status         StationStatus `json:"status"`
	Locks          []Lock        `json:"locks"`
}
