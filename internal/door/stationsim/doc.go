// Package stationsim plays station hardware against a gateway's MQTT broker: for
// demonstrations and training (gatehouse simulate), for load, and for the tests of
// every other package. A [Station] keeps the station's side of the contract (contract,
// section 2): it reports when it connects, on every change and now and then, with its
// uptime, for the first time before it subscribes to its commands; it acts on one
// command id at most once; it ignores a command whose deadline (notAfter in its own
// uptime, or ttl by its own clock) is past, and refuses it before it acknowledges it;
// it reconnects with a jittered backoff. [Faults] make it misbehave as hardware does.
//
// The package knows nothing of the gateway's code beyond the words of package
// site: it speaks the documented topics and JSON, so that what works against it
// works against firmware that was written from the contract.
//
// One goroutine per station keeps the connection; each command in flight has one of the
// MQTT client's.
package stationsim
