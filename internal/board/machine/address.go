package machine

import (
	"encoding/hex"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Addresses returns the addresses under which others reach this machine: those of its
// interfaces, without loopback, link-local and multicast ones, and without the
// temporary ones that IPv6 changes every day (RFC 8981). Sorted; empty where the
// system does not report them.
func Addresses() []netip.Addr {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	return reachable(found, temporary(os.DirFS("/")))
}

func reachable(found []net.Addr, passing map[netip.Addr]bool) []netip.Addr {
	var all []netip.Addr
	for _, a := range found {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		addr := prefix.Addr().Unmap()
		if addr.IsGlobalUnicast() && !passing[addr] {
			all = append(all, addr)
		}
	}
	slices.SortStableFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// flagTemporary is IFA_F_TEMPORARY of the kernel's if_addr.h.
const flagTemporary = 0x01

// temporary reads which IPv6 addresses are temporary (proc(5), /proc/[pid]/net).
func temporary(root fs.FS) map[netip.Addr]bool {
	text, err := fs.ReadFile(root, "proc/self/net/if_inet6") // as far as ProcSubset=pid lets it be seen too
	if err != nil {
		return nil
	}
	passing := make(map[netip.Addr]bool)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // address, index, prefix, scope, flags, interface
		if len(fields) != 6 {
			continue
		}
		raw, _ := hex.DecodeString(fields[0])
		addr, ok := netip.AddrFromSlice(raw)
		flags, err := strconv.ParseUint(fields[4], 16, 32)
		if ok && err == nil && flags&flagTemporary != 0 {
			passing[addr] = true
		}
	}
	return passing
}
