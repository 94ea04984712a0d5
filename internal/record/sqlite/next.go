//go:build !gatehouse_nextschema

package sqlite

// nextSchema is empty: the product has no migration but those in migrations/.
const nextSchema = ""
