package firstboot

// Disk is what tests put in the place of the real one.
type Disk = disk

// RealDisk is the real one.
type RealDisk = realDisk

// UseDisk changes files by way of d.
func (c *Config) UseDisk(d Disk) { c.disk = d }

// SettingsHead begins the file of the settings.
const SettingsHead = settingsHead
