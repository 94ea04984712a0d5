package site

import (
	"fmt"
	"strings"
)

// TakenBack is what happened when an older version, started again after the trial of a
// newer one, took back the database of before that. The records of the trial were carried
// over, and so was what the trial revoked.
type TakenBack struct {
	Time   Timestamp `json:"time"`
	Schema int       `json:"schema"` // of the newer version
	// From and To are the records of the trial; none where To is less than From. Since and
	// Until are the times of the first and the last.
	From  uint64    `json:"from"`
	To    uint64    `json:"to"`
	Since Timestamp `json:"since"`
	Until Timestamp `json:"until"`
	Head  string    `json:"head"` // the hash of record To, in hexadecimal
	// Undone are changes of administrators that are not in effect any more, each in plain
	// words; More counts those beyond the first.
	Undone []string `json:"undone,omitempty"`
	More   int      `json:"more,omitempty"`
}

// String returns one sentence on what was done, without a full stop.
func (t TakenBack) String() string {
	text := fmt.Sprintf("the database of before the trial of a newer version (schema %d) was taken back; records %d to %d of the trial were carried over",
		t.Schema, t.From, t.To)
	if t.To < t.From {
		text = fmt.Sprintf("the database of before the trial of a newer version (schema %d) was taken back; the trial had no records", t.Schema)
	}
	if len(t.Undone) > 0 {
		text += fmt.Sprintf("; of the changes from %s to %s these were undone: %s", t.Since, t.Until, strings.Join(t.Undone, "; "))
	}
	if t.More > 0 {
		text += fmt.Sprintf("; and %d more", t.More)
	}
	return text
}
