// Package cloudtest holds no code: its tests join a whole gateway, simulated stations
// and an application over real brokers, and do to the way between them what networks
// do.
package cloudtest
