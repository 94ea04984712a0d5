package config

import (
	"fmt"

	"gatehouse/internal/board/updates"
)

// Update is about updates of a system that was started from an image.
type Update struct {
	FromCloud bool   // from_cloud: whether signed commands of the cloud may update it
	URL       string // url: where `gatehouse update --check` looks by itself; "": nowhere
}

// updateURL accepts no text, or where an update may be fetched from.
func updateURL(field any) error {
	text, ok := field.(*string)
	if !ok || *text == "" || updates.CheckURL(*text) == nil {
		return nil
	}
	return fmt.Errorf("it cannot be used: write https://HOST/PATH, without a user name, up to %d bytes", updates.MaxURL) // it may hold a password
}
