package firstboot

import "os/user"

// Disk is what tests put in the place of the real one.
type Disk = disk

// RealDisk is the real one.
type RealDisk = realDisk

// UseDisk changes files by way of d.
func (c *Config) UseDisk(d Disk) { c.disk = d }

// UseGroup finds groups by way of f.
func (c *Config) UseGroup(f func(name string) (*user.Group, error)) { c.group = f }

// UsePublic finds cards that everybody can read by way of f.
func (c *Config) UsePublic(f func(path string) bool) { c.public = f }

// SettingsHead begins the file of the settings.
const SettingsHead = settingsHead
