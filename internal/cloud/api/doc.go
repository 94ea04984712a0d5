// Package api is what travels between a gateway and the cloud's broker (contract,
// section 3): the topics, the payloads and the signed commands. Both sides speak through
// it, the gateway (package link) and applications, so that they cannot drift apart. It
// does no input or output. Whether a command was seen before, whether its station exists
// and what becomes of it is decided elsewhere.
//
// A command is a compact JWS (RFC 7515) of JWT claims (RFC 7519), signed with Ed25519
// (EdDSA, RFC 8037). The package holds the keys, signs commands and verifies them: a
// token is a command for this gateway that is valid now, or is refused for one [Reason].
//
// Promise: nothing that a token claims is believed before one of the trusted keys has
// signed it. Control of the broker between signer and gateway is enough to drop
// commands, but not to make or change one.
package api
