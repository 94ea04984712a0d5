// Package mqttclient is one connection to an MQTT 3.1.1 broker elsewhere: it connects,
// subscribes, publishes and receives until it is over, and does not come back. When to
// dial again, what the messages mean and whether a record counts as delivered is the
// business of its callers, package link and applications.
//
// It is built on paho, a fresh client for each connection, behind a net.Conn that reads
// every packet of the broker's before paho does (see filter). Paho logs in, keeps the
// connection alive, hands out what comes in and acknowledges it. Messages
// and subscriptions are packed by paho, written by the filter itself, and their answers
// end there: paho's own bookkeeping completes some with success when the connection
// breaks, never completes others, waits for seconds on a connection that is gone, and
// panics at an answer with too many codes or at the wrong moment.
//
// The promises:
//
//   - No byte that a broker sends ends the process or takes more than bounded memory;
//     what MQTT does not allow ends the connection.
//   - A [Delivery] without an error was acknowledged by the broker, by a PUBACK that
//     came after the message was written, on this connection. Every Delivery is done
//     when the connection is over.
//   - Nothing waits without a bound: neither for a broker that never reads nor for one
//     that is silent.
//   - No goroutine stays when [Conn.Close] returns; Receive is waited for.
//   - No error holds a password, a key or the text of the URL.
package mqttclient
