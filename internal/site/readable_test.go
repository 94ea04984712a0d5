package site_test

import (
	"testing"

	"gatehouse/internal/site"
)

// One rule holds for every name that people give: what is shown is what it is.
func TestReadable(t *testing.T) {
	names := map[string]func(string) bool{
		"station": func(s string) bool { _, ok := site.CleanStationName(s); return ok },
		"token":   site.ValidTokenName,
		"group":   func(s string) bool { _, err := site.ParseGroupName(s); return err == nil },
		"holiday": func(s string) bool { _, err := site.ParseHolidayName(s); return err == nil },
		"name":    site.Readable,
	}
	for kind, accepts := range names {
		for _, good := range []string{"North entrance", "Tür\u00a0Süd", "正門", "باب می\u200cخواهم", "क्\u200dष", "A (2) – 3. OG", "Lobby 🚪"} {
			if !accepts(good) {
				t.Errorf("%s: %q is refused", kind, good)
			}
		}
		for _, bad := range []string{
			"a\u202eb", "a\u202ab", "a\u2066b", "a\u2067b", "a\u200bb", "a\u200cb", "a\u200db", "a\u200eb", "a\u200fb", "a\u2060b", "a\ufeffb", "a\u00adb", "a\u061cb",
			"a\u180eb", "a\u2028b", "a\u2029b", "a\nb", "a\tb", "a\x1b[31mb", "a\x00b", "a\x7fb", "a\u0085b", "a\ufff9b", "a\U000e0041b", "a\ue000b", "a\xffb",
		} {
			if accepts(bad) {
				t.Errorf("%s: %q is accepted", kind, bad)
			}
		}
	}
}
