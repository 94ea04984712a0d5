// Package limit holds the mechanisms behind every bound of the gateway: a fair [Queue] for
// slots, a [Pool] of bounded size that evicts, token buckets ([Bucket], [Buckets]), a
// [Quota] of what is open at once, divided by class and holder, and a [Digest] of the records
// that refusals get. Logins, password hashes, TLS handshakes, connections, requests, streams
// and unlocks are instances with figures of their own. It reads nothing that a client sends,
// and starts no goroutine.
//
// The promise: no number of clients, addresses or connections of one network keeps another
// network out, or makes it wait for more than one turn of each other.
package limit
