package api

import (
	"encoding/json"

	"gatehouse/internal/site"
)

// The words of [Status].
const (
	Online  = "online"
	Offline = "offline"
)

// Status is the payload of [StatusLeaf]. Offline is also the last will, which carries
// nothing but that word.
type Status struct {
	Status  string          `json:"status"`
	Version string          `json:"version,omitempty"`
	Since   *site.Timestamp `json:"since,omitempty"`   // when the connection was made
	Boot    site.BootID     `json:"boot,omitempty"`    // of the gateway's process
	Journal *StatusJournal  `json:"journal,omitempty"` // how far the journal was acknowledged
	Update  *StatusUpdate   `json:"update,omitempty"`  // how updates of the gateway's system stand
}

// StatusUpdate is which versions the gateway's system has, and how updates of it stand.
type StatusUpdate struct {
	site.UpdateStatus
	Text string `json:"text,omitempty"` // the same in sentences, with times in the site's zone; "" where there is only Advice
}

// StatusJournal names the record at which a new application begins.
type StatusJournal struct {
	Next uint64 `json:"next"`           // the first seq that no application has acknowledged
	Hash string `json:"hash,omitempty"` // of the record before it, which covers all that were acknowledged: a witness against a journal that is rewritten
}

// Ack is the payload of [AckLeaf]: the application has every record up to Seq. 0 asks for
// what is not acknowledged.
type Ack struct {
	Seq uint64 `json:"seq"`
}

// Gap replaces records that are gone on [JournalLeaf]: From to To, both included. Seq
// equals To, so that it is acknowledged like a record.
type Gap struct {
	Seq  uint64    `json:"seq"`
	Kind site.Kind `json:"kind"` // site.KindGap
	From uint64    `json:"from"`
	To   uint64    `json:"to"`
}

// NewGap returns the Gap from one seq to another.
func NewGap(from, to uint64) Gap { return Gap{Seq: to, Kind: site.KindGap, From: from, To: to} }

// Result is the payload of [ResultLeaf]: how the command with that jti ended.
type Result struct {
	ID      string         `json:"id"` // the jti; "" where none could be read, or no trusted key has signed it
	Outcome site.Outcome   `json:"outcome"`
	Time    site.Timestamp `json:"time"`
	Command site.CommandID `json:"commandId,omitempty"` // the gateway's own id, as in the journal
	Reason  string         `json:"reason,omitempty"`    // of what the gateway refused, a constant word
	Message string         `json:"message,omitempty"`   // the same for people
	First   *First         `json:"first,omitempty"`     // of a repeated command
}

// First is how a command ended when it came first.
type First struct {
	Outcome site.Outcome   `json:"outcome"`
	Time    site.Timestamp `json:"time"`
}

// Encode returns the JSON of one of the payloads of this package or of package site,
// which always have one.
func Encode(payload any) []byte {
	text, err := json.Marshal(payload)
	if err != nil {
		return []byte("null")
	}
	return text
}
