package machine

import (
	"os"
	"strings"
)

// NetworkName is what this machine is called on the local network: NAME.local finds it
// (RFC 6762), whatever the gateway is called. "" where nothing can find it by a name.
func NetworkName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return networkName(name)
}

// networkName takes the first part of the system's name, as mDNS responders do.
// "localhost" is what systems without a name are called, and anything but letters,
// digits and hyphens is published otherwise, if at all.
func networkName(name string) string {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	if name == "localhost" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return ""
	}
	return name
}
