package site

// ClockStatus is the gateway's clock in a few words.
type ClockStatus struct {
	Now     Timestamp `json:"now"`
	Trusted bool      `json:"trusted"`          // also where an administrator has accepted it for this run
	Why     string    `json:"why,omitempty"`    // it is not trusted, as a sentence
	Advice  string    `json:"advice,omitempty"` // what to do about it
}

// ClockReport is all that is known of the gateway's clock.
type ClockReport struct {
	ClockStatus
	State        string    `json:"state"`        // such as "synchronised"; as of the last check, at most ten seconds ago
	Accepted     bool      `json:"accepted"`     // an administrator has accepted the system's time in this run
	System       Timestamp `json:"system"`       // the system's time
	Synchronised bool      `json:"synchronised"` // whether the system's time is synchronised
	Floor        Timestamp `json:"floor"`        // the last trusted time; the gateway's clock never reads less; null: none
	Believed     Timestamp `json:"believed"`     // when a step that is not trusted yet will be; null: there is none
}
