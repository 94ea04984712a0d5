package site

import "time"

// Origin is the way by which a request came to the gateway.
type Origin string

// The origins (contract, section 4).
const (
	Local Origin = "local" // an app on the LAN, over /v1 or /local/v1
	Cloud Origin = "cloud" // a signed command over the cloud link
	Admin Origin = "admin" // the administration socket or an administrator account

	Integration Origin = "integration" // Home Assistant's alone, over the house's broker
)

// Actor is who asks for something: an account with a session ([Local]), a signer
// ([Cloud]), an administrator ([Admin]) or Home Assistant ([Integration]).
type Actor struct {
	Origin  Origin
	Account AccountID // empty for a socket administrator and for the cloud
	Session SessionID // empty unless a session stands behind the request
	Email   Email     // of Account, as it was when the actor was authenticated
	Admin   bool      // whether Account is an administrator
	Name    string    // for [Admin] "uid 1000 (porter)"; for [Cloud] the signer's claim
	KeyID   string    // for [Cloud] the key that signed the request
}

// DefaultTTL is the deadline of a command when nothing else is configured
// (contract, section 2).
const DefaultTTL = 5 * time.Second

// Command is one unlock on its way to a station. After Deadline it must never
// reach the lock.
type Command struct {
	ID       CommandID
	Station  StationID
	Lock     LockID
	Origin   Origin    // who asked for it
	Deadline time.Time // with a monotonic reading
}

// Outcome is how a command stands or ended (contract, sections 1 and 4).
type Outcome string

// The outcomes. Requested is the intent that is durable before a command leaves.
const (
	Requested    Outcome = "requested"    // about to be sent
	Acknowledged Outcome = "acknowledged" // the station's PUBACK came in time
	Done         Outcome = "done"         // the station reported that the lock opened
	Refused      Outcome = "refused"      // the station would not
	Failed       Outcome = "failed"       // the station could not, or the command could not be sent
	StationGone  Outcome = "offline"      // no live connection; nothing was sent
	Expired      Outcome = "expired"      // the deadline passed unacknowledged
	Late         Outcome = "late"         // an answer came after the deadline
	Unresolved   Outcome = "unknown"      // the gateway ended before an outcome was recorded
)

// The outcomes that only updates of the system have, beside Requested, Refused, Failed and
// Unresolved.
const (
	Accepted  Outcome = "accepted"  // root was asked for it
	Committed Outcome = "committed" // the new version is the default
	FellBack  Outcome = "fell-back" // it was tried, and the old version runs again
)

// Opened reports whether the outcome counts as success for /v1: the station's
// acknowledgement, or its "done", arrived within the deadline.
func (o Outcome) Opened() bool { return o == Acknowledged || o == Done }
