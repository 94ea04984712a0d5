package site

// Inventory is what the database of a gateway holds, for those who back it up and
// restore it.
type Inventory struct {
	Gateway  GatewayID `json:"gatewayId"`
	Schema   int       `json:"schema"` // the version of the database
	Accounts int       `json:"accounts"`
	Stations int       `json:"stations"`
	Sessions int       `json:"sessions"`
	Records  int       `json:"records"` // of the journal
	First    uint64    `json:"first"`   // seq of the oldest record
	Last     uint64    `json:"last"`    // seq of the newest; 0 when none was ever written
	Newest   Timestamp `json:"newest"`  // when the newest record was made
	Head     string    `json:"head"`    // the hash of the newest, in hexadecimal; "": a former version did not say
}
