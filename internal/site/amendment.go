package site

// Amendment is one change that an administrator makes, with its record. Exactly one of
// the other fields is set. Several are stored in one transaction: all or none.
type Amendment struct {
	AddAccount    *Account
	UpdateAccount *Account // replaces what is stored of the account with that id; without a password all but that
	RemoveAccount AccountID

	EndSessions []SessionID // of one account

	AddStation    *Station
	UpdateStation *Station // replaces what is stored of the station with that id
	RemoveStation StationID

	PutGrant    *Grant // in place of the one of the same key
	RemoveGrant *GrantKey

	AddGroup     *Group // its name and kind; members are added by themselves
	RemoveGroup  GroupName
	AddMember    *Member
	RemoveMember *Member

	PutHoliday    *Holiday // in place of the one of that name
	RemoveHoliday string   // its name

	AddToken    *Token
	RemoveToken AccountID

	TimeZone string // IANA name

	Record Record
}
