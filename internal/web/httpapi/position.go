package httpapi

import (
	"strconv"
	"strings"

	"gatehouse/internal/site"
)

// position is the id of an event: its number within one start of the process.
type position struct {
	boot   site.BootID
	number uint64
}

// nowhere is the position of a gap. It belongs to no start of the process, so that a
// client that loses the connection between the gap and the object behind it is told
// of the gap again.
func nowhere() position { return position{boot: "00000000-0000-0000-0000-000000000000"} }

// parsePosition reads "<boot>-<number>".
func parsePosition(text string) (position, bool) {
	i := strings.LastIndexByte(text, '-')
	if i < 1 {
		return position{}, false
	}
	number, err := strconv.ParseUint(text[i+1:], 10, 64)
	return position{site.BootID(text[:i]), number}, err == nil
}

func (p position) append(b []byte) []byte {
	b = append(append(b, p.boot...), '-')
	return strconv.AppendUint(b, p.number, 10)
}
