// Package boardtest tests the product as a board has it: the Debian package and its
// units on the real systemd of Debian 12 and 13, in containers, with apps and
// stations on the other side of a cable; and the ARM binaries under emulation. It
// holds tests alone, behind the build tag board, because they need root, the
// programs that scripts/setup installs, and minutes:
//
//	go test -tags board -run REGEXP ./internal/test/boardtest
//
// The tests run in a process that is the first of a PID namespace, with a mount and
// a network namespace of its own. So nothing of theirs outlives it, however it ends:
// no process, no mount, no network interface. The root file systems of the two
// Debians are kept under build/cache and made again when they are absent.
package boardtest
