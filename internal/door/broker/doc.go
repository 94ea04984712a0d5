// Package broker is the MQTT broker that the stations connect to (contract,
// section 2): MQTT 3.1.1 and 5.0 over TCP and TLS. It is the only importer of
// mochi, and takes from it the packet codec and the handshake of a session, up to CONNACK,
// no more: mochi's loops, listeners, $SYS publisher, session store, subscriptions and
// distribution of messages are never started or reached. A connected station has one
// goroutine, with a stack that only its own packets have grown. What stations publish
// goes to the [Handler], commands leave through [Conn.Send], and nothing is ever
// passed from one client to another.
//
// It decides nothing about stations. The [Authenticator] decides who may connect;
// package stationlink knows topics and payloads.
//
// The promises:
//
//   - Nothing is queued, kept or sent again. A command is written to one live
//     connection before its deadline, or not at all, and a connection that ends
//     with a command in its send buffer ends in a reset, so that the command dies
//     with it; also when the process is killed.
//   - A station has at most one live connection. [Handler.Connected] is called in
//     the order of the take-overs.
//   - A station reaches its own three topics and nothing else.
//   - No byte that arrives ends the process, stops other stations, or takes more
//     than bounded memory and time: packets are measured and checked against the
//     standard before they are decoded (see framer), paced, and decoded under recover.
//   - No secret and no payload is logged.
package broker
