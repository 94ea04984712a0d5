// Package configs holds the annotated configuration, so that the packages and
// "gatehouse service install" lay down the very same one. It knows nothing of what
// the keys mean.
package configs

import "embed"

// Files are the files that are installed: gatehouse.toml.
//
//go:embed gatehouse.toml
var Files embed.FS
