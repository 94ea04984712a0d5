package machine

import (
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
)

// Socket is a TCP socket that listens.
type Socket struct {
	Address netip.AddrPort
	Inode   string // names it in /proc
}

// stateListen is TCP_LISTEN of the kernel.
const stateListen = "0A"

// Sockets lists the TCP sockets that listen in this machine's network (proc(5),
// /proc/net/tcp).
func (m Machine) Sockets() ([]Socket, error) {
	var all []Socket
	text, err := m.Read("/proc/net/tcp")
	if err != nil {
		return nil, err
	}
	six, err := m.Read("/proc/net/tcp6") // not there without IPv6
	if err == nil {
		text = append(text, six...)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != stateListen {
			continue
		}
		if addr, ok := parseSocket(fields[1]); ok {
			all = append(all, Socket{addr, fields[9]})
		}
	}
	return all, nil
}

// parseSocket reads "0100007F:1F90": words of the machine's byte order, in hex.
func parseSocket(text string) (netip.AddrPort, bool) {
	host, digits, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(digits, 16, 16)
	raw, bad := hex.DecodeString(host)
	if err != nil || bad != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), ok
}

// Holders names the processes that have sockets open, by inode. Only root sees those
// of others.
func (m Machine) Holders() map[string][]Process {
	held := make(map[string][]Process)
	for _, name := range m.Entries("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		for _, fd := range m.Entries("/proc/" + name + "/fd") {
			target, err := fs.ReadLink(m.Files, "proc/"+name+"/fd/"+fd)
			inode, is := strings.CutPrefix(target, "socket:[")
			if err == nil && is {
				inode = strings.TrimSuffix(inode, "]")
				held[inode] = append(held[inode], m.Process(pid))
			}
		}
	}
	return held
}
