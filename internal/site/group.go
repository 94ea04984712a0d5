package site

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxGroups is how many groups there may be: each is asked whether an account or a station
// is in it for an unlock.
const MaxGroups = 128

// GroupName names a group: it begins with a letter, has no @ and at most [MaxStationName]
// characters, none of them a control character. So it is neither an e-mail address nor a
// station id.
type GroupName string

// ParseGroupName reads a name without the space around it.
func ParseGroupName(text string) (GroupName, error) {
	name, ok := CleanStationName(text)
	if first, _ := utf8.DecodeRuneInString(name); !ok || !unicode.IsLetter(first) || strings.Contains(name, "@") {
		return "", fmt.Errorf("%q is not the name of a group: begin it with a letter, without @, at most %d characters", clip(text), MaxStationName)
	}
	return GroupName(name), nil
}

// GroupKind is what a group is of.
type GroupKind string

// The kinds of groups.
const (
	OfAccounts GroupKind = "accounts"
	OfStations GroupKind = "stations"
)

// Group is a named set of accounts or of stations, for grants.
type Group struct {
	Name     GroupName
	Kind     GroupKind
	Accounts []AccountID // of a group of accounts
	Stations []StationID // of a group of stations
}

// Member is that an account or a station is in a group.
type Member struct {
	Group   GroupName
	Account AccountID // either this
	Station StationID // or this
}
