package updatefile

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"gatehouse/internal/cloud/api"
	"gatehouse/internal/fault"
)

// KeysFile is where an image has the keys that it trusts.
const KeysFile = "/usr/lib/gatehouse-image/update-keys"

// maxKeys bounds a file of keys, in bytes.
const maxKeys = 64 << 10

// ReadKeys reads a file of public keys: lines of an id and the base64 of a key, as
// "gatehouse cloud keygen" prints them, and comments that begin with #. Every key is
// trusted. A file that does not exist has none.
func ReadKeys(path string) (api.Keyring, error) {
	text, err := os.ReadFile(path) //nolint:gosec // of the image, or the one that a release is verified with
	if os.IsNotExist(err) {
		return api.Keyring{}, nil
	}
	if err == nil && len(text) > maxKeys {
		err = fmt.Errorf("it has %d bytes", len(text))
	}
	if err != nil {
		return api.Keyring{}, fault.Wrap(fault.Invalid, "The keys of updates in "+path+" cannot be read", err)
	}
	var lines []string
	for line := range strings.Lines(string(bytes.ToValidUTF8(text, nil))) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	keys, err := api.NewKeyring(lines)
	if err != nil {
		return api.Keyring{}, fault.Wrap(fault.Invalid, "The keys of updates in "+path+" cannot be read: "+err.Error(), err)
	}
	return keys, nil
}
