// Package cloudwire is what travels between a gateway and the cloud's broker: the
// topics and the payloads of the contract, section 3, and those that the gateway adds
// (live, gap). It does no input or output and decides nothing. The gateway's side
// (package cloudlink) and the side of an application (package cloudtail) both speak
// through it, so that they cannot drift apart.
package cloudwire
