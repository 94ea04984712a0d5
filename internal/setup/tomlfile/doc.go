// Package tomlfile decodes the TOML files of the gateway: each text once, into a tree in
// which every value knows its line. It describes what is wrong with the text itself,
// suggests the key that a typo was meant to be, and writes a file without its secrets. Its
// callers know which keys there are: package sitefile those of site files, package config
// those of the configuration.
//
// No problem repeats the text of a value: it may be a password.
package tomlfile
