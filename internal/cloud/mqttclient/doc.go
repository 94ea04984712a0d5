// Package mqttclient is one connection to an MQTT 3.1.1 broker elsewhere: it connects,
// subscribes, publishes and receives until it is over, and does not come back. When to
// dial again, what the messages mean and whether a record counts as delivered is the
// business of its callers, packages link and homeassistant, and of applications.
//
// Packets are packed by paho's package packets, and what comes in is read here. Paho's
// client is not used: it completes some deliveries with success when the connection breaks,
// never completes others, waits for seconds on a connection that is gone, and panics at an
// answer with too many codes or at the wrong moment.
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
//   - Two goroutines a connection, which end with it; [Conn.Close] waits for them.
//   - No error holds a password, a key or the text of the URL.
package mqttclient
