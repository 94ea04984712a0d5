package cloudtest_test

import (
	"testing"

	"gatehouse/internal/site"
	"gatehouse/internal/web/adminapi"
)

func rename(name string) adminapi.StationPatch { return adminapi.StationPatch{Name: &name} }

// rotated returns a station a new password, and its login: the simulated one is locked
// out.
func (d *door) rotated(t *testing.T, id site.StationID) adminapi.MQTTLogin {
	t.Helper()
	issued, err := d.Admin.Rotate(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return issued.MQTT
}
