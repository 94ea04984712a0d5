package site

import (
	"slices"
	"strings"
)

// IsSecretName reports whether a setting of that name holds a secret: "password",
// "secret", "token" or "passphrase", also at the end of a name such as
// "client_secret". The files that people write (site files, the configuration) go by
// it wherever values are shown or wiped, so that a new setting cannot be forgotten.
func IsSecretName(name string) bool {
	return slices.ContainsFunc([]string{"password", "passphrase", "secret", "token"}, func(word string) bool {
		return name == word || strings.HasSuffix(name, "_"+word)
	})
}
