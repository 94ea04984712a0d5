package site

import (
	"crypto/sha256"
	"encoding/hex"
)

// Amendment is one change that an administrator makes, with its record. Exactly one of
// the other fields is set. Several are stored in one transaction: all or none.
type Amendment struct {
	AddAccount    *Account  `json:",omitzero"`
	UpdateAccount *Account  `json:",omitzero"` // replaces what is stored of the account with that id; without a password all but that
	DropPassword  AccountID `json:",omitzero"` // no login is that account until an update sets another password
	RemoveAccount AccountID `json:",omitzero"`

	EndSessions []SessionID `json:",omitzero"` // all belong to one account

	AddStation    *Station  `json:",omitzero"`
	UpdateStation *Station  `json:",omitzero"` // replaces what is stored of the station with that id
	RemoveStation StationID `json:",omitzero"`

	DropSecret StationID `json:",omitzero"` // no login is that station until an update sets another secret

	LimitStation *StationLimit `json:",omitzero"` // it has this at most

	PutGrant    *Grant    `json:",omitzero"` // in place of the one of the same key
	NarrowGrant *Grant    `json:",omitzero"` // the one of the same key holds within these terms at most
	RemoveGrant *GrantKey `json:",omitzero"`

	AddGroup     *Group    `json:",omitzero"` // its name and kind; members are added by themselves
	RemoveGroup  GroupName `json:",omitzero"`
	AddMember    *Member   `json:",omitzero"`
	RemoveMember *Member   `json:",omitzero"`

	PutHoliday    *Holiday `json:",omitzero"` // in place of the one of that name
	AddDates      *Holiday `json:",omitzero"` // to those of the one of that name, which is added where there is none
	RemoveHoliday string   `json:",omitzero"` // its name

	AddToken    *Token    `json:",omitzero"`
	RemoveToken AccountID `json:",omitzero"`

	TimeZone string `json:",omitzero"` // IANA name

	Record Record

	Revocation uint64 `json:",omitzero"` // its number, of what package amend holds until it is stored; 0: it is no revocation
}

// StationLimit is what a station has at most.
type StationLimit struct {
	Station       StationID
	HomeAssistant HomeAssistantMode
	Locks         int    `json:",omitzero"` // 0: as many as it has
	Token         string `json:",omitzero"` // of the station token that counts, the text that [Station.lostToken] makes; "": of any
}

// Of returns the station within the limit. Another token than the one that counts is replaced by
// one that nobody has.
func (l StationLimit) Of(s Station) Station {
	s.HomeAssistant = min(s.HomeAssistant, l.HomeAssistant)
	if l.Locks > 0 {
		s.Locks = min(s.Locks, l.Locks)
	}
	if l.Token != "" && s.lostToken() != l.Token {
		s.Token = Secret(l.Token)
	}
	return s
}

// lostToken returns what stands for the token of a station where that is lost. It is no more
// known than that, and does not tell it.
func (s Station) lostToken() string {
	sum := sha256.Sum256([]byte(s.Token.Reveal()))
	return hex.EncodeToString(sum[:16])
}

// Revoking returns what of the amendment revokes access, to be stored again in an older state that does not have
// the amendment; false where nothing does. Passwords and secrets stay in the database alone, so that where a new
// one is lost there is none.
func (a Amendment) Revoking() (revoking Amendment, ok bool) {
	r := a
	switch {
	case a.AddAccount != nil, a.AddStation != nil, a.AddToken != nil, a.AddGroup != nil, a.AddMember != nil:
		return Amendment{}, false
	case a.PutGrant != nil:
		r.PutGrant, r.NarrowGrant = nil, a.PutGrant
	case a.UpdateAccount != nil && a.UpdateAccount.Password != "":
		r.UpdateAccount, r.DropPassword = nil, a.UpdateAccount.ID
		r.Record.Detail = "the password that was set is lost: set another"
	case a.UpdateAccount != nil:
		return r, !a.UpdateAccount.Admin
	case a.UpdateStation != nil && a.Record.Kind == KindStationRotated:
		r.UpdateStation, r.DropSecret = nil, a.UpdateStation.ID
		r.Record.Detail = "the secret that was set is lost: rotate it"
	case a.UpdateStation != nil:
		s := *a.UpdateStation
		r.UpdateStation, r.LimitStation = nil, &StationLimit{s.ID, s.HomeAssistant, s.Locks, s.lostToken()}
		r.Record.Detail = "a change is lost (" + a.Record.Detail + "): the station has no more than it left, and no token that it replaced"
	}
	return r, true
}
