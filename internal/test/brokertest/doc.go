// Package brokertest runs real brokers of a cloud on loopback: Debian's Mosquitto, and
// the NATS server with JetStream and MQTT that scripts/nats builds. A broker is killed
// with SIGKILL and started again on the same port with the same data, and a [Proxy]
// before it cuts, holds and refuses connections. It is for tests and for scripts/fleet;
// no part of it is a double of a broker.
package brokertest
