// Package config reads the settings of the gateway: one strict TOML file, the parts in
// conf.d over it, and the environment over all. Every key is in one table (keys.go), from
// which the file, the environment, the checks and their messages all follow; every default
// is in [Defaults]. What is unknown, of the wrong type or out of range is refused, all of
// it at once, each naming its file and line or its variable.
//
// It reads and checks; it opens no listener, loads no certificate and makes no
// directory. The command line calls [Load] once and hands the [Config] to the
// gateway. The annotated file configs/gatehouse.toml explains each key to the one
// who installs the gateway.
package config
