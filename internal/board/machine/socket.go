package machine

import (
	"context"
	"net/netip"
	"regexp"
	"strings"
)

// Socket is a TCP socket that listens.
type Socket struct {
	Address netip.AddrPort
	Holders []string // the programs that have it open, "mosquitto (process 700)"; empty where only root may know
}

// holder is a program in the last column of ss(8).
var holder = regexp.MustCompile(`\("([^"]*)",pid=(\d+)`)

// Sockets lists the TCP sockets that listen, by ss(8).
func (m Machine) Sockets(ctx context.Context) ([]Socket, error) {
	text, err := m.Run(ctx, "ss", "--no-header", "--listening", "--tcp", "--numeric", "--processes")
	if err != nil {
		return nil, err
	}
	var all []Socket
	for line := range strings.Lines(text) {
		fields := strings.Fields(line) // state, queues, local address, peer, programs
		if len(fields) < 5 {
			continue
		}
		host, port, _ := strings.Cut(strings.Replace(fields[3], "*:", "[::]:", 1), "%") // "127.0.0.1%lo:53"
		if _, after, found := strings.Cut(port, ":"); found {
			host += ":" + after
		}
		address, err := netip.ParseAddrPort(host)
		if err != nil {
			continue
		}
		s := Socket{Address: netip.AddrPortFrom(address.Addr().Unmap(), address.Port())}
		for _, found := range holder.FindAllStringSubmatch(line, -1) {
			s.Holders = append(s.Holders, found[1]+" (process "+found[2]+")")
		}
		all = append(all, s)
	}
	return all, nil
}
