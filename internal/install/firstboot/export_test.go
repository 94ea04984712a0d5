package firstboot

import "gatehouse/internal/board/machine"

// Touch is one change of the disk.
type Touch = touch

// OnTouch calls f before each change of the disk; its error is that of the disk.
func (c *Config) OnTouch(f func(Touch) error) { c.touch = f }

// UseOwner finds users by way of f.
func (c *Config) UseOwner(f func(name string) (machine.Owner, bool)) { c.owner = f }

// UsePublic finds cards that everybody can read by way of f.
func (c *Config) UsePublic(f func(path string) bool) { c.public = f }

const (
	// SettingsHead begins the file of the settings.
	SettingsHead = settingsHead
	// WipingName is the site file while it is overwritten.
	WipingName = wipingName
)
