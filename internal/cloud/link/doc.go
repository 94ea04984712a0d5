// Package link is the gateway's own connection to an MQTT broker elsewhere
// (contract, section 3): it keeps the connection, mirrors every station's state, hands
// the journal up and takes signed commands down. It decides nothing about doors: a
// command goes through the same use case as every other unlock; the link adds who
// signed it.
//
// Promises:
//
//   - Nothing waits for it. It pulls the journal behind a cursor of its own and reads
//     the stations; others only wake it up, which never blocks.
//   - Every record goes up in order of seq, at least once, none skipped; one that is
//     gone is named by a gap in its place. A record counts as delivered only when the
//     application has acknowledged it, or, where that is configured, the broker.
//   - A command opens a door at most once, whatever is repeated, and over restarts; and
//     never when it has expired, no trusted key has signed it, or it is for another
//     gateway.
//   - Nothing that a broker sends ends the process or takes memory without bound.
//
// The connection itself is package mqttclient's; each lasts until it is lost, and its
// state is dropped with it: the next continues at the cursor.
package link
