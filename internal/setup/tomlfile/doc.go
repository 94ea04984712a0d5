// Package tomlfile decodes the TOML files of the gateway: each text once, into a tree in
// which every value knows its line. It words what is wrong with the text itself, suggests
// the key that a typo was meant to be, and writes a file without its secrets. Which keys
// there are is for its callers to say: package sitefile for site files, package config
// for the configuration.
//
// No problem repeats the text of a value: it may be a password.
package tomlfile
