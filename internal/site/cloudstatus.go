package site

// CloudStatus is the state of the cloud link, as the link states it and the API shows it.
type CloudStatus struct {
	URL             string    `json:"url"` // of the broker; "" without a cloud
	Connected       bool      `json:"connected"`
	Since           Timestamp `json:"since"` // of the present state; null before the first attempt
	Error           string    `json:"error,omitempty"`
	Advice          string    `json:"advice,omitempty"`
	NextTry         Timestamp `json:"nextTry"`         // null while connected or trying
	Acknowledgement string    `json:"acknowledgement"` // of the "application" or the "broker"
	Delivered       uint64    `json:"delivered"`       // the last seq that the cloud has acknowledged
	Waiting         uint64    `json:"waiting"`         // how many records are pending
	LastDelivery    Timestamp `json:"lastDelivery"`    // null where there was none since the start
	Keys            []string  `json:"keys"`            // the ids of the keys that may sign commands
}
