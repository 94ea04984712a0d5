// Package access says who may: accounts and their passwords, sessions, access
// tokens and grants. It is what stands between the network and a door, so its
// promises are few and strict:
//
//   - The end of a session, the removal of an account and the withdrawal of a grant
//     take effect with the next request, also when the storage takes no writes.
//   - A password is kept as an argon2id hash only, a refresh token as a SHA-256
//     only; neither ever stands in a log line, an error or the journal.
//   - Whether an e-mail address has an account cannot be told from the answer, the
//     work done or the throttling of a login.
//   - Guessing is slow: failures are bounded for an account at a client address, for
//     the address, and for the account over all addresses that are not known for it.
//   - No throttle is a weapon: sessions stay valid, and whatever others do, the right
//     password logs in within 5 s from an address from which the account was logged in
//     to within 30 days, and from this machine; from a new one within 30 s while fewer
//     than 64 others try. The table of attackers and victims is in attack_test.go.
//
// Memory is the authority for every read; the [Store] is read once, by [New], and
// written through. It does no HTTP and no SQL: packages httpapi and adminapi call
// it, package sqlite satisfies its Store, package gateway plugs them together.
//
// Two kinds of lock order everything. The directory's mutex guards memory, is held
// for map look-ups only and never across a hash or a call of the Store. A turn is
// held by whoever writes to the Store, across the call and the change of memory
// that belongs to it, so that the two cannot diverge; no read ever waits for one.
// There is a turn for each account, its sessions included, and one for each grant;
// changes under different turns meet in the Store. Nobody holds two: a grant may be
// stored while its account goes, because the Store orders the two, and memory enters
// no grant of an account that is gone.
package access
