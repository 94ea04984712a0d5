// Package host is what the machine gives: the service manager with its watchdog and
// its sockets, the addresses, the clock with its time floor, the size of the memory,
// and the promise that no core dump carries a secret. It knows Linux and nothing of
// doors; the assembly asks it and hands on what it says.
package host
