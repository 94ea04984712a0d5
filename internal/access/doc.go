// Package access decides who may: accounts and their passwords, sessions, access
// tokens, grants, groups and holidays. It is what stands between the network and a door, so its
// promises are few and strict:
//
//   - The end of a session and the removal of an account take effect with the next request,
//     also when the storage takes no writes. So does what a change of grants, groups and
//     holidays revokes; what it permits takes effect once it is stored.
//   - A password is kept as an argon2id hash only, the secrets of a session as one SHA-256
//     only; none is ever in a log line, an error or the journal, and what is kept signs nothing.
//   - Whether an e-mail address has an account cannot be told from the answer, the
//     work done or the throttling of a login.
//   - Guessing is slow: failures are bounded for an account at a client address, for
//     the address, for an account in an IPv6 network, for the network, and for a known
//     device.
//   - No throttle is a weapon: sessions stay valid, and whatever others do, the right
//     password logs in within 5 s from a device from which the account was logged in to
//     within 30 days; from a new one within 30 s while fewer than 64 other networks try.
//     The table of attackers and victims is in attack_test.go.
//
// Memory is the authority for every read; the [Store] is read once, by [New], and
// written through. It does no HTTP and no SQL: packages httpapi and adminapi call
// it, package sqlite satisfies its Store, package gateway plugs them together.
//
// The directory's mutex guards memory. It is held for look-ups only, never across a hash
// or a call of the Store. Administrators' changes are made by package amend, one at a
// time. The sessions of one account are stored and ended one at a time, so that memory
// and store cannot diverge; those of different accounts meet in the Store, which writes
// them with one flush of the disk. No read ever waits for any of these.
package access
