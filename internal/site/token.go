package site

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The bounds of integration tokens, of our own choice.
const (
	MaxTokens    = 100 // of a gateway
	MaxTokenName = 64  // characters
	MaxScope     = 500 // stations that the scope of one token names
)

// Token is what an integration, such as a dashboard or a script, sends in the place of a
// person's access token. Sum is the SHA-256 of the token; the token itself is never kept.
// As JSON it is what administrators see.
type Token struct {
	ID      AccountID `json:"tokenId"` // in the place of an account's: what an integration does is counted apart
	Name    string    `json:"name"`
	Sum     [32]byte  `json:"-"`
	Scope   Scope     `json:"scopes"`
	Created Timestamp `json:"created"`
	Until   Timestamp `json:"until"`    // zero: for ever
	Used    Timestamp `json:"lastUsed"` // coarse in the store; zero: never
}

// Expired reports whether the token has ended at t.
func (t Token) Expired(at time.Time) bool { return !t.Until.IsZero() && !at.Before(t.Until.Time) }

// ValidTokenName reports whether a token may have that name: 1 to [MaxTokenName] characters,
// the first a letter or a digit, and [Readable].
func ValidTokenName(name string) bool {
	first, _ := utf8.DecodeRuneInString(name)
	return Readable(name) && utf8.RuneCountInString(name) <= MaxTokenName && name == strings.TrimSpace(name) &&
		(unicode.IsLetter(first) || unicode.IsDigit(first))
}

// Scope is what a token may do. The zero Scope is nothing.
type Scope struct {
	Read      bool        // read every station
	UnlockAll bool        // read and unlock every station, also those that are added later
	Unlock    []StationID // read and unlock these, in order
}

// The words of a scope, as the API and the command line write them.
const (
	scopeRead   = "read"
	scopeUnlock = "unlock:"
	scopeAll    = "*"
)

// ParseScope reads words such as "read", "unlock:1042,1043" and "unlock:*".
func ParseScope(words []string) (s Scope, err error) {
	for _, word := range words {
		stations, unlock := strings.CutPrefix(word, scopeUnlock)
		switch {
		case word == scopeRead:
			s.Read = true
		case unlock && stations == scopeAll:
			s.UnlockAll = true
		case unlock:
			for text := range strings.SplitSeq(stations, ",") {
				id, err := ParseStationID(text)
				if err != nil {
					return Scope{}, err
				}
				s.Unlock = append(s.Unlock, id)
			}
		default:
			return Scope{}, fmt.Errorf("%q is no scope: write read, unlock:1042,1043 or unlock:*", Clip(word))
		}
	}
	slices.Sort(s.Unlock)
	s.Unlock = slices.Compact(s.Unlock)
	switch {
	case len(s.Unlock) > MaxScope:
		return Scope{}, fmt.Errorf("the scope names %d stations: name %d at most, or unlock:*", len(s.Unlock), MaxScope)
	case s.UnlockAll && len(s.Unlock) > 0:
		return Scope{}, errors.New("the scope unlock:* includes every station: name no others")
	}
	return s, nil
}

// Words returns the scope as [ParseScope] reads it; none for the zero Scope.
func (s Scope) Words() []string {
	words := []string{}
	if s.Read {
		words = append(words, scopeRead)
	}
	if s.UnlockAll {
		words = append(words, scopeUnlock+scopeAll)
	}
	if len(s.Unlock) > 0 {
		ids := make([]string, len(s.Unlock))
		for i, id := range s.Unlock {
			ids[i] = id.String()
		}
		words = append(words, scopeUnlock+strings.Join(ids, ","))
	}
	return words
}

// MayUnlock reports whether the scope includes unlocking that station.
func (s Scope) MayUnlock(id StationID) bool {
	_, named := slices.BinarySearch(s.Unlock, id)
	return s.UnlockAll || named
}

// MayRead reports whether the scope includes reading that station, as it does where it
// includes unlocking it.
func (s Scope) MayRead(id StationID) bool { return s.Read || s.MayUnlock(id) }

// MarshalJSON implements [encoding/json.Marshaler] with a list of [Scope.Words].
func (s Scope) MarshalJSON() ([]byte, error) { return json.Marshal(s.Words()) }

// UnmarshalJSON implements [encoding/json.Unmarshaler] by [ParseScope].
func (s *Scope) UnmarshalJSON(data []byte) error {
	var words []string
	if err := json.Unmarshal(data, &words); err != nil {
		return errors.New(`scopes are a list such as ["read","unlock:1042,1043"]`)
	}
	parsed, err := ParseScope(words)
	*s = parsed
	return err
}
