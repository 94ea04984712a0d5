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
	Schema int       `json:"schema"` // of the newer version; 0: its database could not be opened
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
	// Lost is the first of the records that may be lost because the newer database is
	// damaged; 0: none. LostSince is the time of the last record before it, and Aside the
	// name of the file that has what can be read of them.
	Lost      uint64    `json:"lost,omitempty"`
	LostSince Timestamp `json:"lostSince,omitzero"`
	Aside     string    `json:"aside,omitempty"`
}

// String returns one sentence on what was done, without a full stop.
func (t TakenBack) String() string {
	text := "the database of before the trial of a newer version"
	if t.Schema > 0 {
		text += fmt.Sprintf(" (schema %d)", t.Schema)
	}
	switch text += " was taken back; "; {
	case t.To >= t.From:
		text += fmt.Sprintf("records %d to %d of the trial were carried over", t.From, t.To)
	case t.Lost > 0:
		text += "no record of the trial was carried over"
	default:
		text += "the trial had no records"
	}
	if t.Lost > 0 {
		text += fmt.Sprintf("; the newer database was damaged: records since %s, from %d on, may be lost, and what they revoked may be back; what can be read of them is in %s",
			t.LostSince, t.Lost, t.Aside)
	}
	if len(t.Undone) > 0 && t.Lost > 0 {
		text += "; these changes were undone: " + strings.Join(t.Undone, "; ")
	} else if len(t.Undone) > 0 {
		text += fmt.Sprintf("; of the changes from %s to %s these were undone: %s", t.Since, t.Until, strings.Join(t.Undone, "; "))
	}
	if t.More > 0 {
		text += fmt.Sprintf("; and %d more", t.More)
	}
	return text
}
