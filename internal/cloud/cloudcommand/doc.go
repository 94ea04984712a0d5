// Package cloudcommand is the form of the commands that come from the cloud: a compact
// JWS (RFC 7515) of JWT claims (RFC 7519), signed with Ed25519 (EdDSA, RFC 8037). It
// holds the keys, signs, and says whether a token is a command for this gateway that
// holds now, or in one word why not. It does no input or output; whether a command came
// before, whether its station exists and what becomes of it is decided elsewhere.
//
// Promise: nothing that a token claims is believed before one of the trusted keys has
// signed it, so that whoever holds the broker between signer and gateway can drop
// commands, but not make or change one.
package cloudcommand
