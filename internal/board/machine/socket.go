package machine

import (
	"context"
	"regexp"
	"strings"
)

// holder is a program in the last column of ss(8).
var holder = regexp.MustCompile(`\("([^"]*)",pid=(\d+)`)

// Sockets lists the TCP ports on which programs listen, by ss(8): for each port a
// sentence with the address and one program that has it open.
func (m Machine) Sockets(ctx context.Context) (map[string]string, error) {
	text, err := m.Run(ctx, "ss", "--no-header", "--listening", "--tcp", "--numeric", "--processes")
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line) // state, queues, local address, peer, programs
		if len(fields) < 5 {
			continue
		}
		holders := "a program that only root sees"
		if found := holder.FindStringSubmatch(line); found != nil {
			holders = found[1] + " (process " + found[2] + ")"
		}
		port := fields[3][strings.LastIndexByte(fields[3], ':')+1:]
		all[port] = fields[3] + " is open in " + holders
	}
	return all, nil
}
