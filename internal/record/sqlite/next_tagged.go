//go:build gatehouse_nextschema

package sqlite

import _ "embed"

// nextSchema is one more migration, so that tests of packages can build "the version
// after this one" and upgrade to it and back. No build for users has its tag.
//
//go:embed migrations_next/next.sql
var nextSchema string
