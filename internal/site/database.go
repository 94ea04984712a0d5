package site

// DatabaseState is the state of a gateway's database.
type DatabaseState struct {
	Size   int64  `json:"size"`             // bytes of the file
	Log    int64  `json:"log"`              // bytes of the log beside it
	Schema int    `json:"schema"`           // its version; 0: the file is empty
	Damage string `json:"damage,omitempty"` // what is wrong with its pages or tables
	First  uint64 `json:"first"`            // seq of the oldest record of the journal; 0 when there is none
	Last   uint64 `json:"last"`             // seq of the newest; likewise
}
