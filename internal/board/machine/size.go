package machine

import "fmt"

// Size returns bytes in the unit that fits them, such as "1.2 MB".
func Size(n int64) string {
	value, unit := float64(n), 0
	units := [...]string{"B", "kB", "MB", "GB", "TB"}
	for value >= 1000 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
