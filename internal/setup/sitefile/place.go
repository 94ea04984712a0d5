package sitefile

// BootFolders are where a site file is looked for first: the boot partition as Raspberry
// Pi OS, an image with UEFI and others mount it.
func BootFolders() []string { return []string{"/boot/firmware", "/boot/efi", "/boot"} }

// FileNames are what a site file may be called. Windows hides the ending of a name and its
// editor adds one, so the second is as common as the first.
func FileNames() []string { return []string{"gatehouse-site.toml", "gatehouse-site.toml.txt"} }
