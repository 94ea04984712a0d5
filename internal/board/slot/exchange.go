package slot

import (
	"errors"

	"gatehouse/internal/site"
)

// Action is what the gateway asks for.
type Action string

// The actions.
const (
	Update   Action = "update"
	Rollback Action = "rollback"
)

// Request is what the gateway asks root for. Root trusts nothing in it: the worst that it
// can cause is an update to a newer version that is signed.
type Request struct {
	ID     string         `json:"id"`
	Action Action         `json:"action"`
	URL    string         `json:"url,omitempty"`    // https://…, of the update, or
	File   bool           `json:"file,omitempty"`   // it was uploaded
	SHA256 string         `json:"sha256,omitempty"` // of the update, 64 lower-case hex digits; "" where none was stated
	At     site.Timestamp `json:"at,omitzero"`      // when to restart; zero: at once
}

// Exchange is the two files by which the gateway asks root for updates and reads how
// they go. The zero value is that of the system; Root is a folder instead, for tests.
type Exchange struct{ Root string }

// Ask leaves a request for root, in place of one that was not taken yet. For the gateway.
func (e Exchange) Ask(r Request) error { return errors.ErrUnsupported }

// TakeRequest returns the request that the gateway left and removes it, for root; false
// when there is none. What is not a well-formed request in a file of the service user is
// removed too, and the error is Invalid.
func (e Exchange) TakeRequest() (Request, bool, error) {
	return Request{}, false, errors.ErrUnsupported
}

// WriteStatus replaces the status that everyone may read. For root.
func (e Exchange) WriteStatus(s site.UpdateStatus) error { return errors.ErrUnsupported }

// ReadStatus returns the status that root wrote. The error is NotFound where there is
// none: on systems that were not started from an image of ours.
func (e Exchange) ReadStatus() (site.UpdateStatus, error) {
	return site.UpdateStatus{}, errors.ErrUnsupported
}
