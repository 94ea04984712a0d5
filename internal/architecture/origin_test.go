package architecture_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// What Home Assistant may open is judged by its link alone: no other package lets anyone
// in as [site.Integration].
func TestIntegration_homeAssistantAlone(t *testing.T) {
	may := []string{"internal/cloud/homeassistant", "internal/door/unlock", "internal/door/stationlink"}
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(p.Dir + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "site.Integration") && !slices.Contains(may, p.name()) {
				t.Errorf("%s: %s uses site.Integration", p.name(), name)
			}
		}
	}
}
