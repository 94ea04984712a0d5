// Package gatewaytest runs a whole gateway on free ports with its data in a
// temporary folder, with clients as simple as they can be: an HTTP client and a
// station that speaks raw MQTT. It is for tests alone; nothing in it is a double
// of a part of the gateway.
package gatewaytest
