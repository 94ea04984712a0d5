// Package configs holds the annotated configuration, so that the packages and
// "gatehouse service install" lay down the very same one, and the examples of site
// files, whose passwords are public. It knows nothing of what the keys mean.
package configs

import "embed"

// Files are gatehouse.toml, which is installed, and the examples.
//
//go:embed gatehouse.toml *.example.toml
var Files embed.FS
