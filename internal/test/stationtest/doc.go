// Package stationtest plays stations with the MQTT libraries that firmware is built with,
// against a whole gateway, over a network that fails: what such a library keeps over an
// outage, and sends behind what is newer, must change nothing. It has tests only.
package stationtest
