// Package machine is the machine that the gateway runs on: its clock, memory, addresses,
// service manager and users for the gateway itself, and as a [Machine] its disks, sockets
// and systemd units for those who look from outside. It judges nothing but the clock, and
// imports nothing that knows of doors.
package machine
