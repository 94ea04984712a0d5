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

// Parse is [Lay] of one file.
func Parse(name string, text []byte, environ []string) (Config, error) {
	c, _, err := Lay([]File{{Name: name, Text: text}}, environ)
	return c, err
}

// Faults returns what is wrong with c, without places.
func Faults(c Config) (all []string) {
	for _, f := range c.faults() {
		all = append(all, f.path+": "+f.what)
	}
	return all
}

// FilesOr is [Files] with another place of the system's file.
var FilesOr = filesOr

// SecretKey reports whether the value of a key with that path would be a secret.
func SecretKey(path string) bool { return key{path: path}.secret() }

// SecretWords returns what is shown of a wrong value of such a key.
func SecretWords(path string, err error) error { return key{path: path}.words(err) }
