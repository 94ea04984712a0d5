package site

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The bounds of what is given of a station. A secret and a token that are not given
// are generated, of 26 characters (contract, section 2).
const (
	MaxStationName   = 100 // characters; of our own choice, as MaxLocks is
	MinStationSecret = 8
	MaxStationSecret = 128
	MinStationToken  = 8
	MaxStationToken  = 128
)

// Station is a piece of hardware as it was enrolled.
type Station struct {
	ID       StationID
	Name     string // for people; may be empty
	Locks    int    // number of locks: lock-1 to lock-<Locks>
	Token    Secret // the station token of /v1
	Secret   SecretHash
	Enrolled time.Time

	HomeAssistant HomeAssistantMode
}

// HomeAssistantMode is what Home Assistant has of a station.
type HomeAssistantMode string

// The modes, which compare as what they allow does; HomeAssistantState is the default.
const (
	HomeAssistantOff    HomeAssistantMode = "off"
	HomeAssistantState  HomeAssistantMode = "state"        // sees it
	HomeAssistantUnlock HomeAssistantMode = "state+unlock" // sees and opens it
)

// Valid reports whether it is one of the three modes.
func (m HomeAssistantMode) Valid() bool {
	return m == HomeAssistantOff || m == HomeAssistantState || m == HomeAssistantUnlock
}

// HasLock reports whether the station was enrolled with lock.
func (s Station) HasLock(lock LockID) bool { return lock >= 1 && int(lock) <= s.Locks }

// ValidLocks reports whether a station may have n locks: 1 to [MaxLocks].
func ValidLocks(n int64) bool { return n >= 1 && n <= MaxLocks }

// CleanStationName returns the name without the space around it; it may be empty. ok
// is false for more than [MaxStationName] characters, and what [Readable] refuses.
func CleanStationName(text string) (name string, ok bool) {
	name = strings.TrimSpace(text)
	return name, utf8.RuneCountInString(name) <= MaxStationName && Readable(name)
}

// ValidStationSecret reports whether a station may be given that secret:
// [MinStationSecret] to [MaxStationSecret] printable ASCII characters. A password of
// MQTT may be any bytes (MQTT 3.1.1, section 3.1.3.5); this one is typed into
// hardware, too, and may be a short one that the hardware came with.
func ValidStationSecret(secret Secret) bool {
	printable := func(c byte) bool { return c >= ' ' && c <= '~' }
	return madeOf(secret, MinStationSecret, MaxStationSecret, printable)
}

// ValidStationToken reports whether a station may be given that station token:
// [MinStationToken] to [MaxStationToken] letters, digits or any of . _ ~ -, which
// stand in a URL as they are (RFC 3986, section 2.3, unreserved characters).
func ValidStationToken(token Secret) bool {
	unreserved := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._~-", c) >= 0
	}
	return madeOf(token, MinStationToken, MaxStationToken, unreserved)
}

// madeOf reports whether word has least to most bytes, all of them allowed.
func madeOf(word Secret, least, most int, allowed func(byte) bool) bool {
	if len(word) < least || len(word) > most {
		return false
	}
	for _, c := range []byte(word.Reveal()) {
		if !allowed(c) {
			return false
		}
	}
	return true
}

// SecretHash is what is kept of a station secret: a salted SHA-256, made and
// compared by package station. A fast hash is enough for a generated secret, which
// carries 130 random bits. Like a [Secret] it prints as "redacted", because a secret that
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

// StationStatus is whether a station has a live connection right now.
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
	return "", fmt.Errorf("%q is not a lock status: locked, unlocked, jammed or unknown", Clip(text))
}

// DoorStatus is what a station last said of the door behind a lock; empty where it has
// never reported one, because it has no sensor there.
type DoorStatus string

// The statuses of a door (contract, section 2).
const (
	DoorOpen    DoorStatus = "open"
	DoorClosed  DoorStatus = "closed"
	DoorUnknown DoorStatus = "unknown"
)

// ParseDoorStatus reads one of the three statuses, exactly as written.
func ParseDoorStatus(text string) (DoorStatus, error) {
	switch s := DoorStatus(text); s {
	case DoorOpen, DoorClosed, DoorUnknown:
		return s, nil
	}
	return "", fmt.Errorf("%q is not a door status: open, closed or unknown", Clip(text))
}

// Lock is the Lock object of /v1 (specification, "Lock"), which has the first three
// fields; see [StationState.WithoutDoors].
type Lock struct {
	ID          LockID     `json:"lockId"`
	Status      LockStatus `json:"status"`
	LastUpdated Timestamp  `json:"lastUpdated"` // when the station last stated the status
	Door        DoorStatus `json:"door,omitempty"`
	DoorSince   Timestamp  `json:"doorSince,omitzero"` // when the door was first reported to be so
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

// Equal reports whether two states show the same.
func (s StationState) Equal(t StationState) bool {
	battery := s.BatteryVoltage == t.BatteryVoltage ||
		s.BatteryVoltage != nil && t.BatteryVoltage != nil && *s.BatteryVoltage == *t.BatteryVoltage
	return battery && s.ID == t.ID && s.Status == t.Status && s.LastConnection == t.LastConnection && slices.Equal(s.Locks, t.Locks)
}

// WithoutDoors returns the state as /v1 shows it. It shares nothing with s.
func (s StationState) WithoutDoors() StationState {
	s.Locks = slices.Clone(s.Locks)
	for i := range s.Locks {
		s.Locks[i].Door, s.Locks[i].DoorSince = "", Timestamp{}
	}
	return s
}

// Unseen returns the state of a station with the same locks that has never connected.
func (s StationState) Unseen() StationState {
	unseen := StationState{ID: s.ID, Status: Offline, Locks: make([]Lock, len(s.Locks))}
	for i, lock := range s.Locks {
		unseen.Locks[i] = Lock{ID: lock.ID, Status: Unknown}
	}
	return unseen
}
