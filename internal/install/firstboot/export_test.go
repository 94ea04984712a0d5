package firstboot

import "os/user"

// Touch is one change of the disk.
type Touch = touch

// OnTouch calls f before each change of the disk; its error is that of the disk.
func (c *Config) OnTouch(f func(Touch) error) { c.touch = f }

// UseGroup finds groups by way of f.
func (c *Config) UseGroup(f func(name string) (*user.Group, error)) { c.group = f }

// UsePublic finds cards that everybody can read by way of f.
func (c *Config) UsePublic(f func(path string) bool) { c.public = f }

const (
	// SettingsHead begins the file of the settings.
	SettingsHead = settingsHead
	// WipingName is the site file while it is overwritten.
	WipingName = wipingName
)
