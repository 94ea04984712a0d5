package stationlink

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"gatehouse/internal/site"
)

// grace is how much of a second may be gone when that second still counts in the ttl.
const grace = 100 * time.Millisecond

// wholeSeconds returns what a command states of the time to the deadline, rounded
// down, so that bytes which are already in its kernel when the connection is reset
// do not open the door late. Less than half a second is none.
func wholeSeconds(left time.Duration) int {
	if left < time.Second && left >= time.Second/2 {
		return 1
	}
	return int((left + grace) / time.Second)
}

// MaxCommand is the longest payload of a command, in bytes: a station that takes no
// packet of its size cannot be used. It has room for every field of the contract,
// section 2, at its longest.
const MaxCommand = 128

// appendCommand writes the payload of stations/<id>/command; ttl is in seconds, notAfter in
// milliseconds of the station's uptime, where that is known.
func appendCommand(b []byte, cmd site.Command, ttl int, notAfter int64, known bool) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, cmd.ID...)
	b = append(b, `","command":"unlock","lockId":"`...)
	b = append(b, cmd.Lock.String()...)
	b = append(b, `","ttl":`...)
	b = strconv.AppendInt(b, int64(ttl), 10)
	if known {
		b = append(b, `,"notAfter":`...)
		b = strconv.AppendInt(b, notAfter, 10)
	}
	return append(b, '}')
}

// result is a valid payload of stations/<id>/result.
type result struct {
	id      site.CommandID
	outcome site.Outcome
	lock    site.LockID     // 0 when not stated
	status  site.LockStatus // "" when not stated
}

// parseResult reads a result. Its id says which command is answered, so that nothing else that
// is wrong makes a success of it: without a known word, or with a lock that is none, it is
// Failed, with the error. A wrong status is passed over.
func parseResult(payload []byte) (result, error) {
	var raw struct {
		ID     string          `json:"id"`
		Result json.RawMessage `json:"result"`
		LockID json.RawMessage `json:"lockId"`
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(payload, &raw); err != nil {
		return result{}, fmt.Errorf("reading a result: %w", err)
	}
	id, err := uuid.Parse(raw.ID)
	if err != nil || len(raw.ID) != 36 {
		return result{}, errors.New("reading a result: id is not a command id")
	}
	res := result{id: site.CommandID(id.String()), outcome: site.Failed}
	lock, _ := value[string](raw.LockID)
	res.lock, err = site.ParseLockID(lock)
	status, _ := value[string](raw.Status)
	if st, err := site.ParseLockStatus(status); err == nil && res.lock != 0 {
		res.status = st
	}
	switch word, _ := value[site.Outcome](raw.Result); {
	case word == site.Done && err != nil && raw.LockID != nil:
		return res, fmt.Errorf("reading a result: %w", err)
	case word == site.Done, word == site.Refused:
		res.outcome = word
	case word != site.Failed:
		return res, errors.New("reading a result: result is not done, refused or failed")
	}
	return res, nil
}
