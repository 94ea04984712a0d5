package config

// Key is what tests see of the table of keys.
type Key struct {
	Path, Variable string
	Field          any // points into the Config that Keys was given
}

// Keys lists every key with its field in c.
func Keys(c *Config) []Key {
	var all []Key
	for _, k := range keys() {
		all = append(all, Key{Path: k.path, Variable: k.variable(), Field: k.field(c)})
	}
	return all
}
