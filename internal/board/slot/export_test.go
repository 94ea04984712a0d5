package slot

import "crypto/sha256"

// SetUptime replaces how long ago the board was started, in seconds.
func (e *Exchange) SetUptime(uptime func() int64) { e.uptime = uptime }

// SetRemount replaces how the boot partition is mounted anew.
func (b *Board) SetRemount(remount func(folder string, readOnly bool) error) { b.remount = remount }

// SetReread replaces how the disk is read back.
func (b *Board) SetReread(reread func(string, int64) ([sha256.Size]byte, error)) { b.reread = reread }

// Variable returns a variable of the boot loader in a file of U-Boot, nil if none; false
// where the file is damaged.
func Variable(file []byte, name string) ([]byte, bool) {
	all, whole := parseUboot(file)
	for _, one := range all {
		if one.name == name {
			return one.data, whole
		}
	}
	return nil, whole
}

// Variables returns how many variables a file of U-Boot has; false where it is damaged.
func Variables(file []byte) (int, bool) {
	all, whole := parseUboot(file)
	return len(all), whole
}

// Others returns the bytes of all variables but those of that name of the boot loader.
func Others(file []byte, name string) (others []byte) {
	all, _ := parseUboot(file)
	for _, one := range all {
		if one.name != name {
			others = append(others, one.raw...)
		}
	}
	return others
}

// SetVariable returns a file of U-Boot with another value of a variable.
func SetVariable(file []byte, name string, value []byte) []byte {
	all, _ := parseUboot(file)
	return formatUboot(all, name, value)
}

// ParseRequest is what root makes of the text of a request.
func ParseRequest(text []byte) (Request, error) { return parseRequest(text) }
