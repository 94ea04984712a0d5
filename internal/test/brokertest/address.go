package brokertest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// FreeAddresses returns that many addresses on loopback that nobody listens on. Their ports
// stay reserved until this process ends: a program that is told one may listen on it, stop
// and listen again, and the system hands it to nobody else meanwhile.
func FreeAddresses(count int) (addresses []string, err error) {
	for range count {
		port, err := reserve()
		if err != nil {
			return nil, fmt.Errorf("reserving a port on loopback: %w", err)
		}
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addresses, nil
}

// reserve binds a socket that never listens and is never closed. Linux leaves its port
// to no listener and to no connection that wants any port. A listener that names the
// port may have it as well, if it sets SO_REUSEADDR as this socket does (socket(7)):
// Mosquitto does, and every program in Go.
func reserve() (port int, err error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	name, err := unix.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	return name.(*unix.SockaddrInet4).Port, nil
}
