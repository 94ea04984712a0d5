package api

// Reason is why a command was refused, as one word. The words are part of the contract:
// results, the journal and metrics contain them.
type Reason string

// The reasons that [Keyring.Verify] finds, in the order in which it looks for them.
const (
	Oversized      Reason = "oversized"       // more than MaxToken bytes
	Malformed      Reason = "malformed"       // not in the form of the contract
	Algorithm      Reason = "algorithm"       // signed by anything but EdDSA, or not at all
	UnknownKey     Reason = "unknown-key"     // the key that it names is not trusted
	BadSignature   Reason = "bad-signature"   // that key has not signed it
	MissingClaim   Reason = "missing-claim"   // what it must state is absent
	WrongAudience  Reason = "wrong-audience"  // meant for another gateway
	Expired        Reason = "expired"         // exp has come
	NotYetValid    Reason = "not-yet-valid"   // iat or nbf lies ahead
	Lifetime       Reason = "lifetime"        // longer-lived than MaxLifetime
	UnknownCommand Reason = "unknown-command" // cmd is neither Unlock nor Update
)

// The reasons that are found with what the gateway knows besides the token. Verify
// returns the first two for what cannot be a station or a lock anywhere.
const (
	UnknownStation Reason = "unknown-station"
	UnknownLock    Reason = "unknown-lock"
	Repeated       Reason = "repeated"      // its id came before
	Retained       Reason = "retained"      // the broker had kept it for later subscribers
	Busy           Reason = "busy"          // no more commands can be taken now
	Clock          Reason = "clock"         // the gateway cannot know whether it is still valid
	NotPermitted   Reason = "not-permitted" // the key, station or lock was removed meanwhile
	UpdatesOff     Reason = "updates-off"   // this gateway takes no updates from the cloud
	NotImage       Reason = "not-image"     // this gateway's system does not update itself
)

// Refusal is the error of a token that is no command to be carried out.
type Refusal struct {
	Reason   Reason
	ID       string // its jti where one could be read; "" unless Verified: anyone could have chosen it
	KeyID    string // its kid where one could be read; only if Verified by a trusted signer
	Verified bool   // whether a trusted key has signed the token
	Name     string // its cmd; "" unless Verified
	Message  string // the reason for people, in one line
}

// Error returns the message.
func (r *Refusal) Error() string { return "refusing a command: " + r.Message }
