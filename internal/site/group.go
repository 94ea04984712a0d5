package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxGroups is how many groups there may be: each is asked whether an account or a station
// is in it for an unlock.
const MaxGroups = 128

// GroupName names a group: it begins with a letter, has no @ and at most [MaxStationName]
// characters, and is [Readable]. So it is neither an e-mail address nor a
// station id.
type GroupName string

// ParseGroupName reads a name without the space around it.
func ParseGroupName(text string) (GroupName, error) {
	name, ok := CleanStationName(text)
	if first, _ := utf8.DecodeRuneInString(name); !ok || !unicode.IsLetter(first) || strings.Contains(name, "@") {
		return "", fmt.Errorf("%q is not the name of a group: begin it with a letter, without @, at most %d characters", Clip(text), MaxStationName)
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
	Name    GroupName
	Kind    GroupKind
	Members []Member // accounts or stations, by its kind
}

// Member is that an account or a station is in a group. Comparable.
type Member struct {
	Group   GroupName
	Account AccountID // either this
	Station StationID // or this
}

// Members are accounts or stations as a request or a site file lists them, not both.
type Members struct {
	Accounts []Email     `json:"accounts,omitzero"` // nil for stations
	Stations []StationID `json:"stations,omitzero"` // nil for accounts
}

// Kind returns what a group of them is of; "" where neither is stated.
func (m Members) Kind() GroupKind {
	switch {
	case m.Stations != nil:
		return OfStations
	case m.Accounts != nil:
		return OfAccounts
	}
	return ""
}

// Refs returns the accounts or stations, in their order.
func (m Members) Refs() (all []Ref) {
	for _, email := range m.Accounts {
		all = append(all, Ref{Email: email})
	}
	for _, id := range m.Stations {
		all = append(all, Ref{Station: id})
	}
	return all
}

// Ref names an account, a station or a group, as people do. The zero Ref names nothing.
// Comparable.
type Ref struct {
	Email   Email     // either this
	Station StationID // or this
	Group   GroupName // or this
}

// ParseWho reads an e-mail address or the name of a group of accounts.
func ParseWho(text string) (r Ref, err error) {
	if strings.Contains(text, "@") {
		r.Email, err = ParseEmail(text)
	} else {
		r.Group, err = ParseGroupName(text)
	}
	return r, err
}

// ParseWhat reads a station id or the name of a group of stations.
func ParseWhat(text string) (r Ref, err error) {
	if r.Station, err = ParseStationID(text); err != nil {
		r.Group, err = ParseGroupName(text)
	}
	return r, err
}

// String returns the address, the id or the name.
func (r Ref) String() string {
	if r.Station != 0 {
		return r.Station.String()
	}
	return string(r.Email) + string(r.Group)
}

// JoinRefs returns some as one text, with commas between them.
func JoinRefs(all []Ref) string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}

// MarshalJSON implements [json.Marshaler]: a station is a number, all else a text.
func (r Ref) MarshalJSON() ([]byte, error) {
	if r.Station != 0 {
		return json.Marshal(r.Station) //nolint:wrapcheck // encoding/json does
	}
	return json.Marshal(r.String()) //nolint:wrapcheck // likewise
}

// UnmarshalJSON implements [json.Unmarshaler]. What a text names is not checked.
func (r *Ref) UnmarshalJSON(data []byte) error {
	*r = Ref{}
	switch {
	case len(data) == 0 || data[0] != '"':
		return json.Unmarshal(data, &r.Station) //nolint:wrapcheck // likewise
	case bytes.Contains(data, []byte("@")):
		return json.Unmarshal(data, &r.Email) //nolint:wrapcheck // likewise
	}
	return json.Unmarshal(data, &r.Group) //nolint:wrapcheck // likewise
}
